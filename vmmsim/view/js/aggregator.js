// SPDX-License-Identifier: MIT-0
// What a picture shows where there is much. Neighbours that are alike are one, reservations that are alike are one, and
// allocations, of which each is in one box and no other. Where that is still too much, what the call changes or names
// is shown, then what crosses GPUs or processes, then what is largest, and the rest is counted and added up.
//
// So many reservations of a process and boxes of a GPU are shown: fewer, where that would be too high.
const levels = [[12, 12], [8, 8], [6, 6], [6, 4], [4, 3], [3, 2], [2, 2]];
const in_full = 4, most_objects = 4;  // processes; multicast objects

const touched_in = ({ handles, exports, bound, status }) =>
  [status, ...handles.map((handle) => handle.status), ...exports.map(({ kind }) => kind),
    ...bound.map((binding) => binding.status)].filter((mark) => mark != KEPT).join("");
const of_memory = (memory) => [memory.size, memory.handles.map(({ process, count }) => [process, count]).join(),
  memory.mapped.length > 0, memory.is_held_by_fd, memory.source_unknown, memory.touched, memory.crosses].join(";");
// R2–R4, R8 of numbers; of names the first and the last.
function names_of(names) {
  const numbers = names.map((name) => Number(name.match(/^R(\d+)$/)?.[1]));
  if (numbers.some(Number.isNaN)) return `${names[0]}${names.length > 2 ? " …" : ","} ${names.at(-1)}`;
  const ranges = ranges_of(numbers).map(([from, to]) => from == to ? `R${from}` : `R${from}–R${to}`);
  return ranges.length > 3 ? `${ranges.slice(0, 2).join(", ")}, …, ${ranges.at(-1)}` : ranges.join(", ");
}
// Of ranks, each a list of numbers: the higher ones first.
const by_rank = (rank) => (a, b) => {
  const [of_a, of_b] = [a, b].map(rank), nth = of_b.findIndex((number, index) => number != of_a[index]);
  return nth < 0 ? 0 : of_b[nth] - of_a[nth];
};

// active: the process whose turn it is; fault as a Drawing has it.
class Aggregator {
  constructor(scene, active = 0, fault = null) {
    Object.assign(this, { scene, active, fault, run_of: new Map(), made: new Map() });
    this.memories = [...scene.memories.values()];
    this.named = scene.lives.steps?.[scene.to - 1].named ?? { reservations: [], memory: [] };  // in the step's words
    for (const { inside } of scene.spaces.flat())
      for (const part of inside) part.memory.crosses ||= this.is_across(part);
    for (const memory of this.memories) {
      memory.touched = touched_in(memory) + (this.named.memory.includes(memory.nth) ? "named" : "");
      memory.crosses ||= scene.is_shared(memory);
      memory.likeness = of_memory(memory);
    }
    this.full = this.in_full();
    this.spaces = scene.spaces.map((regions) => {
      for (const region of regions) this.fill(region);
      return this.grouped(regions);
    });
  }
  is_across({ memory, access }) {  // GPUs
    return access.some(([flags], index) => flags && this.scene.devices[index] != memory.device);
  }
  // The process whose turn it is, and those that share memory with it; all, if they are few.
  in_full() {
    const all = this.scene.processes.map((_, process) => process);
    if (all.length <= in_full) return new Set(all);
    const shares = new Set([this.active < all.length ? this.active : 0]);
    for (const { handles } of this.scene.memories.values())
      if (handles.some(({ process }) => process == this.active))
        for (const { process } of handles) if (process < all.length) shares.add(process);
    return new Set([...shares].slice(0, in_full));
  }
  fill(region) {
    const touched = region.inside.map(({ memory }) => memory.touched).join();
    if (region.touched != touched) {  // or it has been seen before, and nothing has happened to it
      region.fill(this.scene.joined(region.inside, 2,
        (a, b) => a.memory.touched == b.memory.touched));
      Object.assign(region, { touched, all_parts: region.parts });
    }
    region.parts = region.all_parts;
    region.bytes = sum(region.inside.filter(({ status }) => status != GONE).map(({ size }) => size));
    const offset = this.fault?.process == region.process ? this.fault.address - region.base : -1;
    const { inside } = region;  // across GPUs; or of memory that is used elsewhere in another way
    region.crosses = inside.some((part) => this.is_across(part)) ? 2 : +inside.some(({ memory }) => memory.crosses);
    region.is_touched = region.status != KEPT || this.named.reservations.includes(region.number)
      || (offset >= 0 && offset < region.size)
      || region.parts.some((part) => part.is_mapped && (part.is_marked || part.memory.touched));
    for (const part of region.parts) part.words = part.is_mapped ? who_may(part, this.scene.devices) : "";
    for (const { mappings, offset } of region.parts)
      for (const { memory: { nth } } of mappings)
        if (!this.run_of.has(nth)) this.run_of.set(nth, `${region.number}+${offset}`);
  }
  // Those that are alike together, what changes or is named by itself; that first.
  grouped(regions) {
    const key_of = (region) => region.is_touched || region.parts.length > 4 ? `${region.number}`
      : [region.size, region.crosses, ...region.parts.map((part) => [part.offset, part.size, part.mappings.length,
        part.access, part.is_mapped && [part.memory.size, part.memory.device, part.memory.source_unknown]])].join("|");
    const groups = grouped(regions, key_of).map(([, its]) => its);
    return groups.sort(by_rank((group) =>
      [group[0].is_touched, group[0].crosses, group[0].bytes * group.length, group.length, group[0].number]));
  }
  // The reservations that are shown of a process, each for its group, and what of it is not.
  shown(process, most, width, measures) {
    const groups = this.spaces[process], chosen = groups.slice(0, most), rest = groups.slice(most).flat();
    const regions = chosen.map((group) => this.region_of_group(group, width, measures));
    regions.sort((a, b) => a.number - b.number);
    if (!groups.length) return { regions, more: "nothing reserved" };
    const mapped = (some) => size_text(sum(some.map(({ bytes }) => bytes)));
    const crossing = rest.filter(({ crosses }) => crosses);
    const of = rest.some(({ bytes }) => bytes) ? `, ${mapped(rest)} mapped` : "";
    const across = crossing.length ? `, ${mapped(crossing)} of it shared` : "";
    return { regions, more: rest.length ? `… and ${plural(rest.length, "more reservation")}${of}${across}` : "" };
  }
  region_of_group([first, ...others], width, measures) {
    const region = Object.assign(new Region(first.number, first, first.status), { inside: first.inside, others });
    const parts = first.all_parts.map((part, index) => Object.assign(new Part(part.offset, part.size), part,
      { known_ranges: null, twins: others.map((other) => other.all_parts[index]) }));
    if (others.length) region.name = names_of(region.all.map(({ name }) => name));
    region.parts = parts;
    const is_too_wide = () => sum(least_widths(region, measures)) + 2 * INSET > width;
    if (is_too_wide()) region.parts = this.joined(parts);
    for (let most = 6; most > 0 && is_too_wide(); most--)  // with less in it, if it is wider than the picture
      region.parts = this.some_of(this.joined(parts), most);
    return region;
  }
  // Neighbours of whatever sizes, to which the same may be done, and that nothing has happened to.
  joined(parts) {
    const result = [], key_of = ({ rights, memory: { device, is_multicast, source_unknown, touched } }) =>
      [rights, device, is_multicast, source_unknown, touched].join();
    for (const part of parts) {
      const last = result.at(-1), are_mapped = last?.is_mapped && part.is_mapped;
      if (are_mapped && !last.is_marked && !part.is_marked && key_of(last) == key_of(part))
        result.push(Object.assign(new Part(result.pop().offset, last.size + part.size), { ...last,
          size: last.size + part.size, mappings: [...last.mappings, ...part.mappings],
          twins: [...last.twins, ...part.twins], known_ranges: null }));
      else result.push(part);
    }
    return result;
  }
  some_of(parts, most) {  // what is marked stays, and where nothing is mapped at the end; then what is largest
    const rank = (part) => [part.is_mapped && part.is_marked, !part.is_mapped && part == parts.at(-1), part.is_mapped,
      part.size];
    const kept = new Set([...parts].sort(by_rank(rank)).slice(0, most));
    const result = [];
    for (const part of parts) {
      const last = result.at(-1);
      if (kept.has(part)) result.push(part);
      else if (last?.is_rest) {
        last.size += part.size;
        last.mappings.push(...part.mappings);
        last.joined.push(part);
      } else
        result.push(new Part(part.offset, part.size, { is_rest: true, mappings: [...part.mappings], joined: [part] }));
    }
    for (const rest of result.filter(({ is_rest }) => is_rest)) {  // its rights, if they are the same everywhere
      const [first, ...others] = rest.joined.filter(({ is_mapped }) => is_mapped);
      if (first && others.every(({ rights }) => rights == first.rights))
        Object.assign(rest, { access: first.access, rights: first.rights, words: first.words });
    }
    return result;
  }

  // All boxes of a GPU, or with -1 of nobody knows which, that are at most so many if that can be, in order.
  all_boxes(device, most) {
    const memories = this.memories.filter((memory) => memory.device == device && !memory.is_multicast);
    const order = (boxes) => boxes.sort(by_rank((box) => [box.is_touched, box.crosses, box.bytes]));
    if (memories.length <= most) return order(this.boxes(memories, ({ nth }) => nth));
    const of_runs = this.known(`${device} runs`, () => order(this.boxes(memories, (memory) =>
      `${this.run_of.get(memory.nth)};${memory.likeness}`)));
    if (of_runs.length <= most) return of_runs;
    return this.known(`${device}`, () => order(this.boxes(memories, ({ likeness }) => likeness)));
  }
  boxes(memories, key_of) {
    return grouped(memories, key_of).map(([, its]) =>
      Object.assign(new Box(its), { is_touched: its[0].touched != "" }));
  }
  known(key, make) {
    if (!this.made.has(key)) this.made.set(key, make());
    return this.made.get(key);
  }
  // The boxes that are shown, in order, and the memory that is not; more than so many where that takes no row more.
  boxes_of(device, most, rows_of) {
    const all = this.all_boxes(device, most), there = ({ status }) => status != GONE;
    let count = Math.min(most, all.length);
    const rows = (some) => rows_of(all.slice(0, some)).length;
    while (count < all.length && rows(count + 1) == rows(count)) count++;
    const rest = all.slice(count).filter(there), total = (boxes) => sum(boxes.map(({ bytes }) => bytes));
    return { boxes: all.slice(0, count).sort((a, b) => a.nth - b.nth), bytes: total(all.filter(there)),
      rest: { count: sum(rest.map((box) => box.count)), bytes: total(rest) } };
  }
  objects() {
    const all = this.memories.filter(({ is_multicast }) => is_multicast).map((memory) => new Box([memory]));
    const is_changed = (box) => box.touched || box.has_grown;
    const shown = [...all.filter(is_changed), ...all.filter((box) => !is_changed(box))].slice(0, most_objects);
    return { shown, hidden: all.length - shown.length };
  }
}
