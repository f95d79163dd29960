// SPDX-License-Identifier: MIT-0
// PyTorch's blocks in a step, of its own snapshot, as snapshot.py has packed them: [GPU, address, size, born, awaits,
// died, stack], of one process; `ranges` of addresses are its allocator's. Steps before `begin` and after `end` are not
// in the snapshot.
class TorchBlocks {
  constructor({ torch = {}, stacks, frames_of_code }) {
    Object.assign(this, { process: 0, blocks: [], ranges: [], begin: 1, end: 0, left_out: 0 }, torch,
      { stacks, frames_of_code, step: 0, now: [], addresses: [], known: new Map() });
  }
  // What led to an allocation, the innermost first.
  frames(stack) {
    if (!this.known.has(stack))
      this.known.set(stack, this.stacks[stack].map((nth) => this.frames_of_code[nth])
        .map(([name, where]) => `${where} in ${name}`));
    return this.known.get(stack);
  }
  get is_there() { return this.end > 0; }
  tells(at) { return this.begin <= at && at <= this.end; }
  // Those that are allocated, in the order of their addresses.
  at(step) {
    if (this.step == step) return this.now;
    const is_alive = ([, , , born, , died]) => born <= step && (!died || died > step);
    this.now = this.tells(step) ? this.blocks.filter(is_alive).sort((one, other) => one[1] - other[1]) : [];
    this.addresses = this.now.map((block) => block[1]);
    this.step = step;
    return this.now;
  }
  // Of these addresses: [[begin, end, whether it awaits being free]...]; or null, if that is not known.
  within(process, begin, end, at) {
    const is_its = this.ranges.some(([from, to]) => from < end && begin < to);
    if (process != this.process || !this.tells(at) || !is_its) return null;
    return this.blocks_in(begin, end, at).map(([, address, size, , awaits]) =>
      [Math.max(address, begin), Math.min(address + size, end), awaits && awaits <= at]);
  }
  // That have a part there.
  blocks_in(begin, end, at) {
    const all = this.at(at), first = Math.max(0, first_from(this.addresses, begin) - 1);
    return all.slice(first, first_from(this.addresses, end)).filter(([, address, size]) => address + size > begin);
  }
  words(process, begin, end, at) {
    const its = this.within(process, begin, end, at);
    if (!its) return "";
    const bytes = (some) => sum(some.map(([from, to]) => to - from)), live = its.filter(([, , awaits]) => !awaits);
    const parts = [`${size_text(bytes(live))} live in ${plural(live.length, "block")}`,
      live.length < its.length && `${size_text(bytes(its) - bytes(live))} awaiting free`,
      `${size_text(end - begin - bytes(its))} cached`];
    return ` Of it PyTorch has ${parts.filter(Boolean).join(", ")}.`;
  }
}
