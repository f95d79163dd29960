// SPDX-License-Identifier: MIT-0
// PyTorch's blocks in a step, of its own snapshot, of one process; `ranges` of addresses are its allocator's. Steps
// before `begin` and after `end` are not in the snapshot.
class TorchBlocks {
  constructor({ torch = {}, stacks, frames_of_code }) {
    Object.assign(this, { process: 0, blocks: [], ranges: [], begin: 1, end: 0, left_out: 0 }, torch,
      { stacks, frames_of_code, step: 0, now: [], addresses: [], known: new Map() });
    // What is the same in each step is made once, for there may be many.
    const keys = new Map(), { begin } = this;
    this.blocks = this.blocks.map((block) => {
      const { device, stack, born } = block, made_by = `${device} ${stack}`;
      if (!keys.has(made_by)) keys.set(made_by, `${device}\n${stacks && this.frames(stack)[0]}`);  // a picture has none
      return { ...block, kind: "torch", since: born || begin, ended: 0, mapped: 0, held_by: "", is_idle: false,
        key: keys.get(made_by) };
    }).sort((a, b) => a.address - b.address);
  }
  frames(stack) {
    if (!this.known.has(stack))
      this.known.set(stack, this.stacks[stack].map((nth) => this.frames_of_code[nth])
        .map(({ name, where }) => `${where} in ${name}`));
    return this.known.get(stack);
  }
  get is_there() { return this.end > 0; }
  tells(at) { return this.begin <= at && at <= this.end; }
  // Those that are allocated, in the order of their addresses.
  at(step) {
    if (this.step == step) return this.now;
    this.now = this.tells(step) ? now_of(this.blocks, step) : [];
    for (const block of this.now) block.is_idle = block.awaits > 0 && block.awaits <= step;
    this.addresses = this.now.map(({ address }) => address);
    this.step = step;
    return this.now;
  }
  // Of these addresses; or null, if that is not known.
  within(process, begin, end, at) {
    const has_part = this.ranges.some((range) => range.begin < end && begin < range.end);
    if (process != this.process || !this.tells(at) || !has_part) return null;
    return this.blocks_in(begin, end, at).map(({ address, size, is_idle }) =>
      ({ begin: Math.max(address, begin), end: Math.min(address + size, end), is_idle }));
  }
  // That have a part there.
  blocks_in(begin, end, at) {
    const all = this.at(at), first = Math.max(0, first_from(this.addresses, begin) - 1);
    return all.slice(first, first_from(this.addresses, end)).filter(({ address, size }) => address + size > begin);
  }
  words(process, begin, end, at) {
    const blocks = this.within(process, begin, end, at);
    if (!blocks) return "";
    const bytes = (some) => sum(some.map((block) => block.end - block.begin));
    const live = blocks.filter(({ is_idle }) => !is_idle);
    const parts = [`${size_text(bytes(live))} live in ${plural(live.length, "block")}`,
      live.length < blocks.length && `${size_text(bytes(blocks) - bytes(live))} awaiting free`,
      `${size_text(end - begin - bytes(blocks))} cached`];
    return ` Of it PyTorch has ${parts.filter(Boolean).join(", ")}.`;
  }
}
