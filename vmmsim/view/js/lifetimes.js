// SPDX-License-Identifier: MIT-0
// What there is in a step, of the lives of all things.
const OWN = 0, OF_MODULE = 1, OPENED = 2, MANAGED = 3, OF_GRAPH = 4;  // kinds of ordinary memory, as there
const kinds_of_block = { [OWN]: "ordinary", [OPENED]: "opened", [MANAGED]: "managed", [OF_GRAPH]: "graphs" };
const steps_of_mapping = ({ born, died, granted }) => [born, died, ...granted.map(({ step }) => step)];

const total = ({ held }) => sum(Object.values(held));
const peak_of = (changes) => changes.reduce((most, change) => total(change) > total(most) ? change : most);

class Lifetimes {
  constructor(packed) {
    const { columns, ...data } = unpacked(packed, shapes);
    Object.assign(this, data, { torch: new TorchBlocks(data), steps: columns && rows_of_columns(columns) });
    this.mapped_in = this.reservations.map(() => []);
    for (const mapping of this.mappings) this.mapped_in[mapping.reservation].push(mapping);
    const by_memory = (records) => Object.fromEntries(grouped(records, ({ memory }) => memory));
    this.mapped_of = by_memory(this.mappings);
    this.handles_of = by_memory(this.handles);
    this.bound_in = Object.fromEntries(grouped(this.bindings, ({ multicast }) => multicast));
    this.known = { memory: new Map(), reservation: new Map() };  // of the picture before
    this.last_of = new Map();  // by process: [its end, its next call: another program's, in the same process]...
    this.texts = new Map();  // of steps, in which words are sought
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
    const holders = [...this.handles_of[nth] ?? [], ...this.descriptors.filter(({ memory }) => memory == nth)];
    const processes = [...now_of(holders, at).map(({ process }) => process),
      ...now_of(this.mapped_of[nth] ?? [], at).map(({ reservation }) => this.reservations[reservation].process)];
    return [...new Set(processes)].sort((a, b) => a - b);
  }
  // In which steps something happens to memory, or to a reservation and what is mapped in it; in order.
  steps_of_memory(nth) {
    const { steps, rare: { exports = [], team = [], held_by_fd = [] } } = this.memory[nth - 1];
    const handles = this.handles_of[nth] ?? [], counts = handles.flatMap((handle) => handle.counts);
    const others = [...exports, ...team, ...held_by_fd, ...counts].map(({ step }) => step);
    for (const { born, died } of [...handles, ...this.bound_in[nth] ?? []]) others.push(born, died);
    return [...steps, ...others, ...(this.mapped_of[nth] ?? []).flatMap(steps_of_mapping)].sort((a, b) => a - b);
  }
  steps_of_reservation(number) {
    const { born, died } = this.reservations[number], inside = this.mapped_in[number];
    const memories = [...new Set(inside.map(({ memory }) => memory))].filter((nth) => this.memory[nth - 1]);
    return [born, died, ...inside.flatMap(steps_of_mapping), ...memories.flatMap((nth) => this.steps_of_memory(nth))]
      .sort((a, b) => a - b);
  }
  // What a pin of a picture means: r3,5-7 are reservations, r3:0:4096 a part of one, m4 memory.
  meant(pin, at) {
    const [numbers, offset, size] = pin.slice(1).split(":");
    if (pin[0] == "m") {
      const memory = new Set(in_ranges(numbers)), mapped = [...memory].flatMap((nth) => this.mapped_of[nth] ?? []);
      const reservations = new Set(now_of(mapped, at).map(({ reservation }) => reservation));
      return { memory, reservations, is_whole: false };
    }
    const is_in = ({ offset: from, size: length, born, died }) => born <= at && (!died || died >= at)  // or goes
      && (offset == null || (from < +offset + +size && from + length > +offset));
    const parts = in_ranges(numbers).flatMap((number) => this.mapped_in[number]).filter(is_in);
    return { memory: new Set(parts.map((mapping) => mapping.memory)), reservations: new Set(in_ranges(numbers)),
      is_whole: offset == null };
  }

  // The steps in which something happened to what lies at an address.
  steps_at(address) {
    const found = new Set();
    this.reservations.forEach(({ base, size, born, died }, number) => {
      const offset = address - Number(base);
      if (offset < 0 || offset >= size) return;
      found.add(born).add(died);
      for (const mapping of this.mapped_in[number])
        if (offset >= mapping.offset && offset < mapping.offset + mapping.size)
          for (const step of steps_of_mapping(mapping)) found.add(step);
    });
    return found;
  }

  // How two steps differ in what is held, in words.
  between(one, other) {
    const [from, to] = [Math.min(one, other), Math.max(one, other)], is_in = ({ step }) => step > from && step <= to;
    const sentences = this.lanes.map(({ device, changes }) => {
      const events = this.memory.filter((memory) => memory && memory.device == device && !memory.is_multicast)
        .flatMap(({ size, steps }) => steps.map((step, nth) => ({ step, size, is_end: nth % 2 == 1 })));
      for (const { size, device: of, born, died, kind } of this.blocks)
        if (of == device && kind != OPENED)
          events.push({ step: born, size, is_end: false }, { step: died, size, is_end: true });
      const sizes = (is_end) => events.filter(is_in).flatMap((event) => event.is_end == is_end ? [event.size] : []);
      const text = (all, did) => all.length ? `${did} ${size_text(sum(all))} in ${all.length}, ` : "";
      const seen = [last_of(changes, from), ...changes.filter(is_in)], peak = peak_of(seen);
      return `GPU ${device} from ${size_text(total(seen[0]))} to ${size_text(total(seen.at(-1)))}; `
        + text(sizes(false), "allocated") + text(sizes(true), "freed")
        + `peak ${size_text(total(peak))} at step ${Math.max(peak.step, from)}`;
    });
    return `From step ${from} to step ${to}: ${sentences.join(". ")}.`;
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
    if (kind) return (_, number) => this.memory[digits - 1]?.events.some(({ step }) => step == number);
    const [, least, unit] = word.match(/^>([\d.]+)(µs|us|ms|s)$/) ?? [];  // so long it took
    if (unit) return (_, number) => this.took?.[number - 1] > least * ({ s: 1e6, ms: 1e3 }[unit] ?? 1);
    const at_address = /^0x[\da-f]{4,}$/.test(word) ? this.steps_at(Number(word)) : null;
    const name = /^r\d+$/.test(word) ? RegExp(`\\b${word}\\b`) : null;  // R1 is not R10
    return (step, number) => at_address?.has(number)
      || (name ? name.test(this.text_of(step)) : this.text_of(step).includes(word));
  }
  text_of(step) {
    const { call, brief, words, owner, place: { file, line, name }, led_there, stack } = step;
    if (!this.texts.has(step))
      this.texts.set(step, with_sizes([call, brief, words, name, `${file}:${line}`, this.owners[owner], ...led_there,
        ...this.frames(stack).flatMap((frame) => [frame.name, frame.where])].join(" ").toLowerCase()));
    return this.texts.get(step);
  }
  // What led to a call, the innermost first.
  frames(stack) { return this.stacks[stack].map((nth) => this.frames_of_code[nth]); }
}
