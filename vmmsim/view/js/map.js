// SPDX-License-Identifier: MIT-0
// All reservations of a step, to scale: for each process a tape from address to address, and a table.
class ReservationMap {
  constructor(data, lives, at, width) {
    Object.assign(this, { data, lives, at, width, reservations: data.reservations });
  }
  gpu_of([, , , nth]) {
    return this.data.memory[nth - 1]?.[1] ?? -1;
  }
  mapped(number) {
    return this.lives.now_mapped(number, this.at);
  }
  parts() {
    const processes = [...new Set(this.reservations.map(([process]) => process))].sort((one, other) => one - other);
    const uses = tables_of_uses(this.lives, this.at);
    if (uses.length) uses.unshift(make("h3", {}, "Who may use whose memory, in how many allocations"));
    return uses.concat(processes.flatMap((process) => {
      const words = this.data.processes > 1 ? `process ${process + 1}: ` : "";
      const its = this.reservations.flatMap(([whose, , , , born, died], number) =>
        whose == process && this.lives.is_there(this.at, born, died) ? [number] : []);
      its.sort((one, other) => Number(this.reservations[one][2]) - Number(this.reservations[other][2]));
      return its.length ? this.tape(its, words) : [make("h3", {}, `${words}nothing reserved`)];
    }));
  }

  // What is mapped in a reservation that is drawn there; neighbours closer than a pixel are one.
  fill(picture, number, x, y, wide) {
    const size = this.reservations[number][3], last = {};
    for (const mapping of this.mapped(number).sort(([, one], [, other]) => one - other)) {
      const [, offset, length] = mapping, gpu = this.gpu_of(mapping), before = last[gpu];
      const from = x + offset / size * wide, to = from + Math.max(1, length / size * wide);
      if (before && (from <= before.to || to - before.from < 2)) {
        before.to = Math.max(to, before.to);
        before.rect.setAttribute("width", before.to - before.from);
      } else {
        const kind = gpu >= 0 ? `vmm-in vmm-gpu${gpu % 8}` : "vmm-in vmm-elsewhere";
        last[gpu] = { from, to, rect: shape(picture, from, y, to - from, kind) };
      }
    }
  }
  tape(its, whose) {
    const { width } = this, all = sum(its.map((number) => this.reservations[number][3]));
    const room = Math.min(6, its.length) * width - 4 * its.length, pixel = all / (room > 200 ? room : width);
    const picture = document.createElementNS(svg, "svg");
    let [x, y, squeezed] = [1, 2, 0];
    for (const number of its) {
      const [, name, base, size] = this.reservations[number];
      const true_width = Math.max(3, size / pixel), wide = Math.min(width - 2, true_width);
      if (x + wide > width) [x, y] = [1, y + 30];
      const is_squeezed = true_width > width;
      const mapped = size_text(sum(this.mapped(number).map(([, , length]) => length)));
      const about = `Reservation ${name}: ${size_text(size)} at ${base}, ${mapped} mapped.`
        + (is_squeezed ? ` To scale it would be ${(true_width / wide).toFixed(1)} times as long.` : "");
      shape(picture, x, y, wide, "vmm-box", { "data-pin": `r${number}`, "data-about": about });
      this.fill(picture, number, x, y, wide);
      if (is_squeezed && ++squeezed)  // a break in the bar
        for (const at of [wide - 20, wide - 14])
          shape(picture, at, y - 1, 3, "vmm-break", { height: 24, transform: `rotate(20 ${at} ${y + 11})` });
      x += wide + 2;
    }
    const count = `${its.length} reservation${its.length > 1 ? "s" : ""}`;
    const scale = `100 pixels are ${size_text(Math.round(100 * pixel))}`;
    const title = `${whose}${count}, ${size_text(all)} of addresses; ${scale}`;
    const attributes = { viewBox: `0 0 ${width} ${y + 26}`, class: "vmm-picture", role: "img", "aria-label": title };
    for (const [name, value] of Object.entries(attributes)) picture.setAttribute(name, value);
    const words = `A double stroke: ${squeezed == 1 ? "one bar is" : `${squeezed} bars are`} longer than a row, and `
      + "squeezed into it with all that is mapped there; nothing is left out.";
    return [make("h3", {}, title), picture, ...squeezed ? [make("p", {}, words)] : [], this.table(its)];
  }

  // Equal ones are one row, which opens.
  words_of(number) {
    const inside = this.mapped(number), rights = new Set();
    const gpus = [...new Set(inside.map((mapping) => this.gpu_of(mapping)))].filter((gpu) => gpu >= 0).sort();
    for (const [, , , , , , granted] of inside) {
      const now = new Map();  // by GPU
      for (const [step, device, flags] of granted)
        if (step <= this.at) now.set(device, `GPU ${device} ${right(flags)}`);
      for (const text of now.values()) rights.add(text);
    }
    const size = size_text(sum(inside.map(([, , length]) => length)));
    const mapped = inside.length ? `${size} mapped` : "nothing mapped";
    const of = gpus.length ? ` of GPU ${gpus.join(", ")}` : "";
    return [`${size_text(this.reservations[number][3])} reserved, ${mapped}${of}`, ...rights].join("; ");
  }
  button(number) {
    const numbers = this.mapped(number).slice(0, 3).map(([, , , nth]) => ` #${nth}`).join("");
    const name = this.reservations[number][1];
    return make("button", { type: "button", "data-pin": `r${number}`, "data-about": name }, name + numbers);
  }
  table(its) {
    const groups = grouped(its, (number) => this.words_of(number));
    const folds = groups.map(([words, numbers]) => {
      const fold = make("details", {}, make("summary", {}, `${numbers.length} × ${words}`));
      fold.open = groups.length < 3 && numbers.length < 9;
      fold.append(...numbers.slice(0, most).map((number) => this.button(number)));
      if (numbers.length > most) fold.append(`… and ${numbers.length - most} more`);
      return fold;
    });
    return make("div", { class: "vmm-groups" }, ...folds);
  }
}
