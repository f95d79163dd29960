// SPDX-License-Identifier: MIT-0
// What is said of a part of a picture where a reader points at it, and by what it is pinned: [words, pin].
const plural = (count, noun) => `${count < 1000 ? count : count.toLocaleString("en")} ${noun}${count == 1 ? "" : "s"}`;
const hex = (address) => `0x${address.toString(16)}`;
const first_eight = (all) => all.length < 9 ? all.join(", ") : `${all.slice(0, 8).join(", ")}, ${all.length - 8} more`;
const ranges_text = (ranges) => ranges.map(([from, to]) => to > from ? `${from}-${to}` : `${from}`).join();

class TooltipWriter {
  constructor(data, scene) {
    Object.assign(this, { data, scene });
  }
  // In which step by which call, and where; of several in which steps, and what of it they have in common.
  made(verb, ...all) {
    const steps = [...new Set(all)].sort((a, b) => a - b), [step] = steps;
    if (!steps.at(-1)) return " Nobody saw it made: the recording begins later, or has not all.";
    if (!step) return ` ${verb} in part before the recording begins.`;
    const same = (text_of) => new Set(steps.map((each) => text_of(this.data.steps[each - 1]))).size < 2;
    const { call, place: { file, line: row, name } } = this.data.steps[step - 1];
    const place_of = ({ place }) => Object.values(place).join();
    if (steps.length > 1)
      return ` ${verb} in steps ${first_eight(steps)} by ${same((other) => other.call) ? call : "several calls"}`
        + `${file && same(place_of) ? `, ${file}:${row}` : ""}.`;
    const whose = this.data.whose(this.data.steps[step - 1]);
    const where = file ? `, ${file}:${row}` : name ? `, in ${name}` : "";
    return ` ${verb} in step ${step} by ${call}${whose && ` of ${whose}`}${where}.`;
  }
  place({ offset }, { name, base, others }) {
    const alike = others.length ? ", and alike in the others" : "";
    return `at offset ${exact(offset)} of reservation ${name}${alike}, from ${hex(base + offset)}`;
  }
  pin(region, part = null) {
    const numbers = ranges_text(ranges_of(region.all.map(({ number }) => number)));
    return `r${numbers}${part ? `:${part.offset}:${part.size}` : ""}`;
  }

  reservation(region) {
    const { others, all, name, size, base, number } = region, pin = this.pin(region);
    if (others.length)
      return [`${all.length} reservations that are alike, ${size_text(size)} each: `
        + `${first_eight([this.data.reservations[number].name, ...others.map((other) => other.name)])}.`, pin];
    const { born, is_guessed } = this.data.reservations[number];
    return [`Reservation ${name}: ${size_text(size)} of addresses, ${hex(base)} to ${hex(base + size)}.`
      + this.made("Reserved", is_guessed ? 0 : born), pin];
  }
  gap(part, region) {
    if (part.is_rest)
      return part.mappings.length ? [`${plural(part.mappings.length, "mapping")}, ${size_text(part.mapped)} in all, `
        + `within ${size_text(part.size)} ${this.place(part, region)}: ${this.which(part.memory, part.ranges)}.`,
      this.pin(region, part)] : ["", ""];
    const words = "reserved and not mapped. An access to them is a fault.";
    return [`${size_text(part.size)} ${this.place(part, region)}: ${words}`, this.pin(region)];
  }
  part(part, region) {
    const { memory: { device } } = part, { devices, to } = this.scene;
    const gpus = part.access.map(([flags], index) => `GPU ${devices[index]} ${right(flags)}`).join(", ");
    const mappings = [part, ...part.twins].flatMap((each) => each.mappings);
    const opened_in = mappings.flatMap(({ granted }) =>  // of each the last step that has opened it
      granted.filter(({ step, flags }) => step <= to && flags).slice(-1).map(({ step }) => step));
    const opened = opened_in.length ? this.made("Opened", ...opened_in) : "";
    const born = mappings.map((mapping) => mapping.born);
    return [`${part.label()} ${this.place(part, region)}, ${part.status == GONE ? "was" : "is"} `
      + `${this.which(part.memory, part.ranges)}${device >= 0 ? ` of GPU ${device}` : ""}. ${gpus}.`
      + this.made("Mapped", ...born) + opened + this.of_torch(part, region), this.pin(region, part)];
  }
  // How much of it is live: not of what stands for several reservations.
  of_torch({ offset, end, status }, { process, base, others }) {
    return others.length || status == GONE ? ""
      : this.data.torch.words(process, base + offset, base + end, this.scene.to);
  }
  memory(box) {
    const { device, is_multicast, source_unknown, mapped, count, memories, ranges } = box;
    const where = device >= 0 ? ` of GPU ${device}` : is_multicast ? "" : ", of which GPU is not known";
    const handles = box.handles.filter(({ status }) => status != GONE)
      .map(({ process, count }) => `${this.scene.processes[process] || "it"} has ${count}`);
    const held = handles.length ? `References of handles: ${handles.join(", ")}` : "No handle has a reference";
    const born = memories.map(({ nth, steps }) => this.data.memory[nth - 1].rare.is_unseen ? 0 : steps[0]);
    const made = this.made(source_unknown ? "Imported" : "Made", ...born);
    const which = this.which(box, ranges);
    return [`${which[0].toUpperCase()}${which.slice(1)}: ${box.label()}${where}. ${held}; `
      + `${plural(mapped.length, "mapping")}${count > 1 ? " each" : ""}.${made}`
      + (source_unknown ? " Of which export is not known." : ""), `m${ranges_text(ranges)}`];
  }
  which({ is_multicast }, ranges) {
    const noun = is_multicast ? "multicast object" : "allocation";
    const words = ranges.map(([from, to]) => from == to ? `#${from}` : `#${from} to #${to}`);
    return `${noun}${ranges.length > 1 || ranges[0][0] != ranges[0][1] ? "s" : ""} ${first_eight(words)}`;
  }

  // --- What crosses; ordinary memory, by GPU; peer access: {text, status, about, unfold} each
  extras() {
    const { data: { blocks, peers }, scene } = this;
    const has_changed = (records) => records.some((record) => [NEW, GONE].includes(scene.status(record)));
    const key_of = ({ device, kind }) => ({ [OPENED]: -100, [MANAGED]: -99, [OF_GRAPH]: device + 0.5 })[kind] ?? device;
    const ordinary = grouped(blocks, key_of).sort(([one], [other]) => one - other)
      .flatMap(([device, some]) => {
        const now = now_of(some, scene.to), is_changed = has_changed(some);
        if (!now.length && !is_changed) return [];
        const size = size_text(sum(now.map((block) => block.size))), count = plural(now.length, "allocation");
        const where = { "-100": "Another process's by cudaMalloc", "-99": "Managed",
          "-1": "Page-locked on the host" }[device]
          ?? (device % 1 ? `Of graphs on GPU ${Math.floor(device)}` : `By cudaMalloc on GPU ${device}`);
        return [{ text: `${where}: ${now.length ? `${size} in ${count}` : "none any more"}`,
          status: is_changed ? NEW : KEPT, unfold: now.length ? kinds_of_block[some[0].kind] ?? "ordinary" : "" }];
      });
    const across = crossings(this.data, scene.to).map((text) => ({ text, status: KEPT, unfold: "uses" }));
    const pairs = now_of(peers, scene.to).map(({ device, peer }) => `GPU ${device} → GPU ${peer}`).sort();
    const is_changed = has_changed(peers);
    if (!pairs.length && !is_changed) return [...across, ...ordinary];
    const all = [...new Set(pairs)], more = all.length > 4 ? ` and ${all.length - 4} more` : "";
    return [...across, ...ordinary, { status: is_changed ? NEW : KEPT, about: all.join(", "),
      text: `Peer access to memory by cudaMalloc: ${all.slice(0, 4).join(", ") + more || "none any more"}` }];
  }
}
