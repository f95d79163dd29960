// SPDX-License-Identifier: MIT-0
// What there is in a step, and what has changed since an earlier one: that is what a picture shows.
const NEW = "new", KEPT = "kept", GONE = "gone";
const rights_of = { 0: "no access", 1: "read", 3: "read-write" };
const in_words = { fd: "exported as an fd", fabric: "exported as 64 bytes" };

const is_there = (at, born, died) => born <= at && (!died || died > at);
const now_of = (records, at) => records.filter(({ born, died }) => is_there(at, born, died));
const change = (was, is) => is ? (was ? KEPT : NEW) : was ? GONE : "";
const right = (flags) => rights_of[flags] ?? String(flags);
const kind_of = (flags) => `vmm-${!(flags in rights_of) ? "box" : flags ? right(flags) : "none"}`;
// The last up to a step.
const last_of = (records, at) => records.findLast(({ step }) => step <= at);

// Of a reservation: a mapping, neighbours that are alike, or (without mappings) where nothing is mapped.
class Part {
  constructor(offset, size, more = {}) {
    Object.assign(this, { offset, size, status: KEPT, access: [], rights: "", mappings: [], twins: [], is_rest: false,
      known_ranges: null, x: 0, width: 0 }, more);
  }
  get end() { return this.offset + this.size; }
  get middle() { return this.x + this.width / 2; }
  get is_mapped() { return this.mappings.length > 0 && !this.is_rest; }
  get has_rights() { return this.is_mapped || (this.is_rest && this.rights != ""); }
  get is_marked() { return this.status != KEPT || this.access.some(([, changed]) => changed); }
  get memory() { return this.mappings[0].memory; }
  get ranges() {  // of the numbers of its memory
    return this.known_ranges ??= ranges_of([this, ...this.twins].flatMap(({ mappings }) =>
      mappings.map(({ memory }) => memory.nth)));
  }
  label() {
    const count = this.mappings.length;
    if (this.is_rest && count) return `… ${count} more`;
    const are_equal = this.mappings.every(({ size }) => size == this.mappings[0].size);
    return count < 2 ? size_text(this.size) : are_equal ? `${count} × ${size_text(this.size / count)}`
      : `${size_text(this.size)} in ${count}`;
  }
  note() { return this.is_rest && this.mappings.length ? size_text(this.mapped) : "not mapped"; }
  get mapped() { return sum(this.mappings.map(({ size }) => size)); }
}

// A reservation; others are those that are like this one, for which it stands.
class Region {
  constructor(number, { process, name, base, size }, status) {
    Object.assign(this, { number, process, name, base: Number(base), size, status, inside: [], parts: [], others: [],
      caption: "", x: 0, width: 0 });
  }
  get all() { return [this, ...this.others]; }
  get mapped() { return this.inside.filter((part) => part.status != GONE).map(({ offset, end }) => [offset, end]); }
  get unmapped() { return this.inside.filter((part) => part.status == GONE).map(({ offset, end }) => [offset, end]); }
  // With these parts, and what lies between them.
  fill(parts) {
    let at = 0;
    this.parts = [];
    for (const part of parts) {
      if (part.offset > at) this.parts.push(new Part(at, part.offset - at));
      if (part.size) this.parts.push(part);
      at = part.end;
    }
    if (this.size > at) this.parts.push(new Part(at, this.size - at));
  }
  label(is_short = false) {
    const size = (this.others.length ? `${this.others.length + 1} × ` : "") + size_text(this.size);
    return (this.name && `${this.name}: `) + size + (is_short ? "" : " reserved");
  }
}

// An allocation or a multicast object; a box of a picture stands for one, or for several that are alike.
class Box {
  constructor(memories) {
    Object.assign(this, memories[0], { memories, known_ranges: null, x: 0, y: 0, width: 0, height: 0 });
  }
  get count() { return this.memories.length; }
  get ranges() { return this.known_ranges ??= ranges_of(this.memories.map(({ nth }) => nth)); }
  get mark() { return this.status == KEPT && this.has_grown ? NEW : this.status; }
  get bytes() { return this.size * this.count; }
  label() {
    if (!this.size) return "size not known";
    return this.count == 1 ? size_text(this.size) : `${this.count} × ${size_text(this.size)}`;
  }
}

class Scene {
  constructor(lives, from, to) {
    const { devices, names_of_processes: processes } = lives;
    Object.assign(this, { lives, from, to, devices, processes, memories: new Map() });
    lives.memory.forEach((record, index) => {
      const nth = index + 1, memory = record && this.kept("memory", nth, () => this.memory(nth, record));
      if (memory) this.memories.set(nth, memory);
    });
    this.spaces = processes.map(() => []);
    lives.reservations.forEach((reservation, number) => {
      const region = this.kept("reservation", number, () => this.region(number, reservation));
      if (region) this.spaces[reservation.process]?.push(region);
    });
  }
  // What is made only if something has happened to it since the picture before.
  kept(kind, key, make) {
    const all = this.lives.known[kind], { from, to } = this;
    let known = all.get(key);
    if (!known) all.set(key, known = { steps: this.lives[`steps_of_${kind}`](key), since: 1, until: 0 });
    if (known.since <= from && to < known.until) return known.made;
    const made = make(), next = first_from(known.steps, from + 1), until = known.steps[next] ?? Infinity;
    if (to < until) Object.assign(known, { made, until, since: known.steps[next - 1] ?? 0 });
    return made;
  }
  status({ born, died }) {
    return change(is_there(this.from, born, died), is_there(this.to, born, died));
  }
  is_shared({ mapped, handles }) {  // by processes
    const process_of = ({ reservation }) => this.lives.reservations[reservation].process;
    const first = handles.length ? handles[0].process : mapped.length ? process_of(mapped[0]) : 0;
    return handles.length > 1 || mapped.some((mapping) => process_of(mapping) != first);
  }
  new_of(records) {
    return records.filter(({ step }) => step > this.from && step <= this.to);
  }

  memory(nth, { size, device, is_multicast, steps, rare }) {
    const { lives, from, to } = this, [was, is] = [from, to].map((at) => steps.findLastIndex((step) => step <= at));
    const status = change(was % 2 == 0, is % 2 == 0);
    if (!status) return null;
    const handles = [];
    for (const handle of lives.handles_of[nth] ?? []) {
      const { process, name } = handle, status = this.status(handle);
      const known = handles.find((other) => other.process == process);
      const count = last_of(handle.counts, status == GONE ? from : to)?.count ?? 1;
      if (known && status) Object.assign(known, { count: status == GONE ? known.count : count, status: KEPT });
      else if (status) handles.push({ process, count, status, name });
    }
    handles.sort((a, b) => a.process - b.process);
    const team = rare.team ?? [], bound = [];
    for (const { memory, ...life } of lives.bound_in[nth] ?? []) {
      const status = this.status(life);
      if (status && !bound.some((binding) => binding.memory == memory)) bound.push({ memory, status });
    }
    return { nth, size, device, is_multicast, status, handles, mapped: now_of(lives.mapped_of[nth] ?? [], to), steps,
      bound: bound.sort((a, b) => a.memory - b.memory),
      exports: this.new_of(rare.exports ?? []), source_unknown: Boolean(rare.source_unknown),
      team: team.filter(({ step }) => step <= to).map(({ device }) => device).sort((a, b) => a - b),
      has_grown: this.new_of(team).length > 0, is_held_by_fd: Boolean(last_of(rare.held_by_fd ?? [], to)?.is_held) };
  }
  region(number, reservation) {
    const status_of_all = this.status(reservation);
    if (!status_of_all) return null;
    const region = new Region(number, reservation, status_of_all);
    for (const mapping of this.lives.mapped_in[number]) {
      const { size, born, granted } = mapping, memory = this.memories.get(mapping.memory);
      const status = this.status(mapping);
      if (!status || !memory) continue;
      const before = status == NEW ? this.from - 1 : this.from, access = [];
      for (const device of this.devices) {
        const of_device = granted.filter((grant) => grant.device == device);
        const was = last_of(of_device, before)?.flags ?? 0, is = last_of(of_device, this.to)?.flags ?? 0;
        access.push([is, is != was]);
      }
      const more = { status, access, rights: access.join(), mappings: [{ memory, size, born, granted }] };
      region.inside.push(new Part(mapping.offset, size, more));
    }
    region.inside.sort((a, b) => a.offset - b.offset || a.mappings[0].born - b.mappings[0].born);
    return region;
  }

  // Neighbours that are alike, at least so many, are one part.
  joined(parts, least, are_alike) {
    const runs = [];
    for (const part of parts) {
      const run = runs.at(-1), last = run?.at(-1);
      if (last && last.end == part.offset && last.memory != part.memory && this.are_alike(last, part)
          && are_alike(last, part)) run.push(part);
      else runs.push([part]);
    }
    return runs.flatMap((run) => run.length < least ? run : [this.part_of_run(run)]);
  }
  part_of_run(run) {
    const [{ offset, status, access, rights }] = run, mappings = run.flatMap((part) => part.mappings);
    return new Part(offset, sum(run.map(({ size }) => size)), { status, access, rights, mappings });
  }
  are_alike(one, other) {
    const [a, b] = [one.memory, other.memory];
    return one.size == other.size && one.status == other.status && a.device == b.device && one.rights == other.rights
      && a.is_multicast == b.is_multicast && a.source_unknown == b.source_unknown;
  }
  // In the order in which they stand. That there is no handle, only where there is room for it.
  badges({ handles, exports, count, status, mapped, is_held_by_fd }, is_terse = false) {
    let badges = handles.map(({ process, count: references, status, name }) => {
      const of = this.processes[process] ? ` of ${this.processes[process]}` : "";
      const noun = count > 1 ? "handles" : references > 1 ? `${references} handles`
        : name ? `handle ${name}` : "handle";
      return { text: noun + of, status, process };
    });
    if (badges.length > 3)
      badges = [{ text: `handles of ${badges.length} processes`, status: KEPT },
        ...badges.filter((badge) => badge.status != KEPT).slice(0, 2)];
    for (const { kind, process } of exports) badges.push({ text: in_words[kind], status: NEW, process });
    if (is_held_by_fd) badges.push({ text: "held by an open fd", status: KEPT });
    else if (!handles.length && mapped.length && status != GONE && !is_terse)
      badges.push({ text: "no handle", status: KEPT });
    return badges;
  }
}
