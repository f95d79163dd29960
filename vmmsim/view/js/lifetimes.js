// SPDX-License-Identifier: MIT-0
// What there is in a step, of the lives of all things, as lifetimes.py has packed them.
const OWN = 0, OF_MODULE = 1, OPENED = 2, MANAGED = 3;  // kinds of ordinary memory, as there
const steps_of_mapping = ([, , , , born, died, granted]) => [born, died, ...granted.map(([step]) => step)];

class Lifetimes {
  constructor(data) {
    Object.assign(this, data, { torch: new TorchBlocks(data) });
    this.mapped_in = this.reservations.map(() => []);
    for (const mapping of this.mappings) this.mapped_in[mapping[0]].push(mapping);
    const by = (all, key) => Object.fromEntries(grouped(all, (each) => each[key]));  // by the number of memory
    this.mapped_of = by(this.mappings, 3);
    this.handles_of = by(this.handles, 1);
    this.bound_in = by(this.bindings, 0);
    this.known = { memory: new Map(), reservation: new Map() };  // of the picture before
    this.last_of = new Map();  // by process: [its end, its next call: another program's, in the same process]...
    this.several = new Set();  // processes that have more than one thread
    for (const [index, { process, thread, call }] of (this.steps ?? []).entries()) {
      if (thread) this.several.add(process);
      const ends = this.last_of.get(process) ?? [];
      if (ends.length && !ends.at(-1)[1]) ends.at(-1)[1] = index + 1;
      if (["exit", "vanished"].includes(call)) this.last_of.set(process, [...ends, [index + 1, 0]]);
    }
  }
  // Who makes a call, of what there are several: process 2, thread 3; or short, P2 T3.
  whose({ process, thread, call }, is_short = false) {
    const has_thread = this.several.has(process) && !["exit", "vanished"].includes(call);
    const all = [this.processes > 1 && ["process ", process], has_thread && ["thread ", thread]].filter(Boolean);
    return is_short ? all.map(([[kind], nth]) => `${kind.toUpperCase()}${nth + 1}`).join(" ")
      : all.map(([kind, nth]) => `${kind}${nth + 1}`).join(", ");
  }
  process(nth, at) {  // in words
    const is_gone = (this.last_of.get(nth) ?? []).some(([end, next]) => is_there(at, end, next));
    return `process ${nth + 1}${is_gone ? ", which is gone" : ""}`;
  }
  // The processes that hold memory: by a handle, a descriptor or a mapping.
  holders(nth, at) {
    const its = [...(this.handles_of[nth] ?? []).map(([process, , born, died]) => [process, born, died]),
      ...this.descriptors.filter(([, one]) => one == nth).map(([process, , , born, died]) => [process, born, died]),
      ...(this.mapped_of[nth] ?? []).map(([room, , , , born, died]) => [this.reservations[room][0], born, died])];
    const now = its.filter(([, ...life]) => is_there(at, ...life)).map(([process]) => process);
    return [...new Set(now)].sort((one, other) => one - other);
  }
  // In which steps something happens to memory, or to a reservation and what is mapped in it; in order.
  steps_of_memory(nth) {
    const [, , , , steps, { exports = [], team = [], held_by_fd = [] }] = this.memory[nth - 1];
    const handles = this.handles_of[nth] ?? [], its = [...exports, ...team, ...held_by_fd].map(([step]) => step);
    for (const [, , born, died, counts] of handles) its.push(born, died, ...counts.map(([step]) => step));
    for (const [, , born, died] of this.bound_in[nth] ?? []) its.push(born, died);
    return [...steps, ...its, ...(this.mapped_of[nth] ?? []).flatMap(steps_of_mapping)].sort((a, b) => a - b);
  }
  steps_of_reservation(number) {
    const [, , , , born, died] = this.reservations[number], inside = this.mapped_in[number];
    const memories = [...new Set(inside.map(([, , , nth]) => nth))].filter((nth) => this.memory[nth - 1]);
    return [born, died, ...inside.flatMap(steps_of_mapping), ...memories.flatMap((nth) => this.steps_of_memory(nth))]
      .sort((a, b) => a - b);
  }
  // What a pin of a picture means: r3,5-7 are reservations, r3:0:4096 a part of one, m4 memory.
  meant(pin, at) {
    const [numbers, offset, size] = pin.slice(1).split(":");
    if (pin[0] == "m") {
      const memory = new Set(in_ranges(numbers)), mapped = [...memory].flatMap((nth) => this.mapped_of[nth] ?? []);
      return { memory, reservations: new Set(now_of(mapped, at).map(([number]) => number)), is_whole: false };
    }
    const is_in = ([, from, length, , born, died]) => born <= at && (!died || died >= at)  // or is unmapped now
      && (offset == null || (from < +offset + +size && from + length > +offset));
    const parts = in_ranges(numbers).flatMap((number) => this.mapped_in[number]).filter(is_in);
    return { memory: new Set(parts.map((mapping) => mapping[3])), reservations: new Set(in_ranges(numbers)),
      is_whole: offset == null };
  }

  // The steps in which something happened to what lies at an address.
  steps_at(address) {
    const found = new Set();
    this.reservations.forEach(([, , base, size, born, died], number) => {
      const offset = address - Number(base);
      if (offset < 0 || offset >= size) return;
      found.add(born).add(died);
      for (const [, from, length, , born, died, granted] of this.mapped_in[number])
        if (offset >= from && offset < from + length)
          for (const step of [born, died, ...granted.map(([step]) => step)]) found.add(step);
    });
    return found;
  }

  // How two steps differ in what is held, in words.
  between(one, other) {
    const [from, to] = [Math.min(one, other), Math.max(one, other)], is_in = ([step]) => step > from && step <= to;
    const told = this.lanes.map(([gpu, changes]) => {
      const comes = this.memory.filter((its) => its && its[1] == gpu && !its[2])
        .flatMap(([size, , , , steps]) => steps.map((step, nth) => [step, size, nth % 2]));
      for (const [, size, its, born, died, kind] of this.blocks)
        if (its == gpu && kind != OPENED) comes.push([born, size, 0], [died, size, 1]);
      const sizes = (goes) => comes.filter(is_in).flatMap(([, size, its]) => its == goes ? [size] : []);
      const text = (all, did) => all.length ? `${did} ${size_text(sum(all))} in ${all.length}, ` : "";
      const held = [last_of(changes, from), ...changes.filter(is_in)].map(([step, ...its]) => [sum(its), step]);
      const [peak, at] = held.reduce((most, each) => each[0] > most[0] ? each : most);
      return `GPU ${gpu} from ${size_text(held[0][0])} to ${size_text(held.at(-1)[0])}; `
        + text(sizes(0), "allocated") + text(sizes(1), "freed")
        + `peak ${size_text(peak)} at step ${Math.max(at, from)}`;
    });
    return `From step ${from} to step ${to}: ${told.join(". ")}.`;
  }

  // The step of which only the number is sought, or 0.
  step_in(text) {
    const number = Number(text.match(/^\s*(?:step\s+)?([\d,]+)\s*$/)?.[1].replaceAll(",", ""));
    return number <= this.steps.length ? number : 0;
  }
  // A test of a step and its number, for words that are sought. A step's number leaves the list as it is.
  fits_words(text) {
    const words = with_sizes(text.trim().toLowerCase())
      .replace(/\b(process|thread|stream)\s+(\d+)\b,?/g, (_, [kind], nth) => `${kind}${nth}`);
    if (!words || this.step_in(words)) return () => true;
    const tests = words.split(/\s+/).map((word) => this.fits_word(word));  // "P2 cuMemMap train.py:25"
    return (step, number) => tests.every((fits) => fits(step, number));
  }
  fits_word(word) {
    const [, kind, digits] = word.match(/^([#pts])(\d+)$/) ?? [];
    if (kind == "p") return ({ process }) => process + 1 == digits;
    if (kind == "t") return ({ thread }) => thread + 1 == digits;
    if (kind == "s") return ({ stream }) => stream == digits;
    if (kind) return (_, number) => this.memory[digits - 1]?.[3].some(([its]) => its == number);
    const [, least, unit] = word.match(/^>([\d.]+)(µs|us|ms|s)$/) ?? [];  // so long it took
    if (unit) return (_, number) => this.took?.[number - 1] > least * ({ s: 1e6, ms: 1e3 }[unit] ?? 1);
    const its = /^0x[\da-f]{4,}$/.test(word) ? this.steps_at(Number(word)) : null;
    const name = /^r\d+$/.test(word) ? RegExp(`\\b${word}\\b`) : null;  // R1 is not R10
    return (step, number) => its?.has(number) || (name ? name.test(this.said(step)) : this.said(step).includes(word));
  }
  said(step) {
    const { call, brief, words, owner, place: [file, line, name], led_there, stack } = step;
    return step.text ??= with_sizes([call, brief, words, name, `${file}:${line}`, this.owners[owner], ...led_there,
      ...this.stacks[stack].flatMap((frame) => this.frames_of_code[frame])].join(" ").toLowerCase());
  }
}
