// SPDX-License-Identifier: MIT-0
// All reservations of a step, to scale: for each process a tape from address to address.
const TAPE = 22;  // how high a bar is

class ReservationMap {
  constructor(lives, at, width) {
    Object.assign(this, { lives, at, width, reservations: lives.reservations });
  }
  gpu_of([, , , nth]) {
    return this.lives.memory[nth - 1]?.[1] ?? -1;
  }
  mapped(number) {
    return this.lives.now_mapped(number, this.at).sort(([, one], [, other]) => one - other);
  }
  parts() {
    const processes = [...new Set(this.reservations.map(([process]) => process))].sort((one, other) => one - other);
    const uses = tables_of_uses(this.lives, this.at);
    if (uses.length) uses.unshift(make("h3", {}, "Who may use whose memory, in how many allocations"));
    return uses.concat(processes.flatMap((process) => {
      const words = this.lives.processes > 1 ? `process ${process + 1}: ` : "";
      const its = this.reservations.flatMap(([whose, , base, , born, died], number) =>
        whose == process && is_there(this.at, born, died) ? [[Number(base), number]] : []);
      its.sort(([one], [other]) => one - other);
      return its.length ? this.tape(its.map(([, number]) => number), words)
        : [make("h3", {}, `${words}nothing reserved`)];
    }));
  }

  tape(its, whose) {
    const { width } = this, all = sum(its.map((number) => this.reservations[number][3]));
    const room = Math.min(6, its.length) * width - 4 * its.length, pixel = all / (room > 200 ? room : width);
    const drawing = new Drawing(null, { width });
    let [x, y, squeezed] = [1, 2, 0];
    for (const number of its) {
      const true_width = Math.max(3, this.reservations[number][3] / pixel), wide = Math.min(width - 2, true_width);
      if (x + wide > width) [x, y] = [1, y + TAPE + 8];
      const is_squeezed = true_width > width;
      const more = is_squeezed ? ` To scale it would be ${(true_width / wide).toFixed(1)} times as long.` : "";
      this.bar(drawing, "vmm-box", x, y, wide, { data_pin: `r${number}`, data_about: this.words_of(number) + more });
      this.fill(drawing, number, x, y, wide);
      if (is_squeezed && ++squeezed)  // a break in the bar
        drawing.path([20, 14].map((at) => `M${x + wide - at} ${y + TAPE + 2}l6 ${-TAPE - 4}`).join(""), "vmm-break");
      x += wide + 2;
    }
    const scale = `100 pixels are ${size_text(Math.round(100 * pixel))}`;
    const title = `${whose}${plural(its.length, "reservation")}, ${size_text(all)} of addresses; ${scale}`;
    const words = `A double stroke: ${squeezed == 1 ? "one bar is" : `${squeezed} bars are`} longer than a row, and `
      + "squeezed into it with all that is mapped there; nothing is left out.";
    const picture = make("div");
    picture.innerHTML = `<svg class="vmm-picture" role="group" aria-label="${title}" viewBox="0 0 ${width} ${
      y + TAPE + 4}">${drawing.elements.join("")}</svg>`;
    return [make("h3", {}, title), picture, ...squeezed ? [make("p", {}, words)] : []];
  }
  bar(drawing, kind, x, y, width, more = {}) {
    drawing.add("rect", kind, { x: +x.toFixed(2), y, width: +width.toFixed(2), height: TAPE, ...more });
  }
  // What is mapped in a reservation that is drawn there; neighbours closer than a pixel are one.
  fill(drawing, number, x, y, wide) {
    const size = this.reservations[number][3], bars = [], last = {};
    for (const mapping of this.mapped(number)) {
      const [, offset, length] = mapping, gpu = this.gpu_of(mapping), before = last[gpu];
      const from = x + offset / size * wide, to = from + Math.max(1, length / size * wide);
      if (before && (from <= before.to || to - before.from < 2)) before.to = Math.max(to, before.to);
      else bars.push(last[gpu] = { from, to, kind: gpu >= 0 ? `vmm-gpu${gpu % 8}` : "vmm-elsewhere" });
    }
    for (const { from, to, kind } of bars) this.bar(drawing, `vmm-in ${kind}`, from, y, to - from);
  }
  words_of(number) {
    const [, name, base, size] = this.reservations[number], inside = this.mapped(number), rights = new Set();
    const gpus = [...new Set(inside.map((mapping) => this.gpu_of(mapping)))].filter((gpu) => gpu >= 0).sort();
    for (const [, , , , , , granted] of inside) {
      const now = new Map(granted.filter(([step]) => step <= this.at).map(([, device, flags]) => [device, flags]));
      for (const [device, flags] of now) rights.add(`GPU ${device} ${right(flags)}`);
    }
    const mapped = inside.length ? size_text(sum(inside.map(([, , length]) => length))) : "nothing";
    const of = gpus.length ? ` of GPU ${gpus.join(", ")}` : "";
    const words = `${size_text(size)} at ${base}, ${mapped} mapped${of}`;
    return `Reservation ${name}: ${[words, ...rights].join("; ")}.`;
  }
}
