// SPDX-License-Identifier: MIT-0
// What the pictures with arrows and those with rows draw alike: reservations, rights, badges, what stands below.
const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
const escaped = (value) => typeof value == "number" ? value : value.replace(/[&<>"']/g, (letter) => entities[letter]);
const marked = (kind, status) => status == KEPT ? kind : `${kind} vmm-${status}`;
const text_kind = (status, kind = "vmm-bold") => status == GONE ? "vmm-was" : kind;
const fill_of = ({ device, mapped, status }) => device < 0 ? "vmm-box"
  : mapped.length || status == GONE ? `vmm-box vmm-gpu${device % 8}` : `vmm-box vmm-unmapped vmm-rim${device % 8}`;

// The parts of diagonal lines that lie in a rectangle.
function diagonals(x, y, width, height, step = 9) {
  const lines = [];
  for (let at = step; at < Math.trunc(width + height); at += step) {
    const left = Math.max(0, at - height), low = Math.min(at, height);
    const right = Math.min(at, width), high = Math.max(0, at - width);
    lines.push(`M${Math.round(x + left)} ${Math.round(y + low)} L${Math.round(x + right)} ${Math.round(y + high)}`);
  }
  return lines.join(" ");
}

// tooltips: says of each part what a reader may want to know, or null; extras: what stands below the memory; fault:
// the process and address of what a kernel must not touch. A trial only tells how high it is.
class Drawing {
  constructor(scene, { width = WIDTH, tooltips = null, extras = [], ordinary = new Set(), fault = null,
    is_trial = false, title = "", calls = [] } = {}) {
    Object.assign(this, { scene, width, tooltips, extras, ordinary, fault, is_trial, title, calls,
      free: width - 2 * MARGIN, elements: [], kinds: new Set() });
  }

  // --- Elements
  add(tag, kind, attributes, inside = null) {
    for (const name of kind.split(" ")) this.kinds.add(name);
    if (this.is_trial) return;
    let words = kind && ` class="${kind}"`;
    for (const name in attributes)
      if (attributes[name] != null && attributes[name] !== "")
        words += ` ${name.replaceAll("_", "-")}="${escaped(attributes[name])}"`;
    this.elements.push(`<${tag}${words}${inside == null ? "/>" : `>${escaped(inside)}</${tag}>`}`);
  }
  text(x, y, text, kind = "", more = {}) {
    this.add("text", kind, { x: Math.round(x), y: Math.round(y), ...more }, text);
  }
  rect(x, y, width, height, kind, status = KEPT, [about, pin] = []) {
    const [left, top, wide, high] = [x, y, width, height].map(Math.round);
    const place = { x: left, y: top, width: wide, height: high, rx: 3 };
    this.add("rect", marked(kind, status), { ...place, data_about: about, data_pin: pin });
  }
  path(d, kind) {
    this.add("path", kind, { d });
  }
  hatch(x, y, width, height, { source_unknown }) {  // over an import, if nobody knows of which export it is
    if (source_unknown) this.path(diagonals(x, y, width, height), "vmm-hatch");
  }

  // Title and calls; returns where the addresses begin.
  head() {
    let y = MARGIN - 14;
    if (this.title) this.text(MARGIN, y = MARGIN + 16, this.title, "vmm-title");
    const calls = grouped(this.calls, (call) => call).map(([call, all]) =>
      all.length == 1 ? call : `${call} ×${all.length}`);
    for (const line of lines_of(calls, ", ", this.free, 13, ",")) this.text(MARGIN, y += 18, line, "vmm-calls");
    return y + 14;
  }

  // --- Reservations
  strip(strip) {
    const { top } = strip, end = this.width - MARGIN;
    if (strip.owner) this.text(MARGIN, top + 15, strip.owner, "vmm-left vmm-bold");
    this.text(MARGIN, top + (strip.owner ? 31 : strip.measures.name), "addresses", "vmm-left");
    if (!strip.regions.length) {
      this.rect(GUTTER, top, end - GUTTER, 38, "vmm-none");
      this.text((GUTTER + end) / 2, top + 23, "nothing reserved");
    }
    for (const region of strip.regions) this.region(region, strip);
    strip.lanes.forEach(({ name, rights }, index) => {
      const y = strip.lanes_y + LANE * index;
      this.text(MARGIN, y + 15, name, "vmm-left");
      for (const [x, width, words, kind, changed] of rights) {
        this.rect(x, y, width, 21, kind, changed ? NEW : KEPT);
        this.text(x + width / 2, y + 15, words, "vmm-small");
      }
    });
  }
  region(region, { top, region_height: height, caption_y, measures }) {
    this.rect(region.x, top, region.width, height, "vmm-box", region.status, this.tooltips?.reservation(region));
    if (!is_to_scale(region)) {
      this.bar("vmm-track", top + height - 6, [[x_of(region, 0), x_of(region, region.size)]]);
      this.bar("vmm-true", top + height - 6, bar_of(region, region.mapped));
      this.bar("vmm-true vmm-gone", top + height - 6, bar_of(region, region.unmapped));
    }
    this.text(region.x + region.width / 2, caption_y, region.caption, text_kind(region.status, ""));
    for (const part of region.parts)
      if (part.is_mapped) this.part(part, region, top, measures);
      else if (region.status != GONE) {
        const [label_y, note_y] = measures.gap, [about, pin] = this.tooltips?.gap(part, region) ?? [];
        const middle = this.rest(part, top + 4, measures.part, [about, pin]);
        this.text(middle, top + label_y, part.label(), "vmm-small", { data_about: about, data_pin: pin });
        this.text(middle, top + note_y, part.note(), "vmm-small");
      }
    if (this.fault) this.mark_fault(region, top, height);
  }
  // Mappings that are not told apart, in the colours of their memory, each as wide as its share; if the words then have
  // no room on one side of their end, as wide as all. Returns the middle of the words.
  rest(part, y, height, about) {
    const { mappings, x, width, size, mapped } = part, share = mapped / size, room = width_of(part.label(), 12);
    const all = Math.max(share, 1 - share) * (width - 4) < room ? mapped : size;
    let left = x + 2;
    for (const [kind, some] of grouped(mappings, ({ memory }) => fill_of({ ...memory, mapped: [0] }))) {
      const wide = (width - 4) * sum(some.map((mapping) => mapping.size)) / all;
      this.rect(left, y, wide, height, kind, KEPT, about);
      left += wide;
    }
    return !mapped ? part.middle : 2 * mapped > all ? (x + 2 + left) / 2 : (left + x + width) / 2;
  }
  mark_fault({ process, base, status, parts }, top, height) {
    const offset = this.fault.address - base;
    if (process != this.fault.process || status == GONE) return;
    for (const part of parts)
      if (part.offset <= offset && offset < part.end) {
        const x = part.x + 6 + (part.width - 12) * (offset - part.offset) / part.size;
        this.rect(part.x + 1, top + 2, part.width - 2, height - 4, "vmm-fault");
        this.path(`M${Math.round(x)} ${Math.round(top + 4)} l-6 -11 h12 z`, "vmm-fault-at");
      }
  }
  part(part, region, top, { part: height, label, tag }) {
    const box = { ...part.memory, mapped: [part], status: KEPT };
    const about = this.tooltips?.part(part, region);
    this.rect(part.x + 2, top + 4, part.width - 4, height, fill_of(box), part.status, about);
    this.hatch(part.x + 2, top + 4, part.width - 4, height, part.memory);
    this.live(part, region, top + 7);
    this.text(part.middle, top + label, part.label(), text_kind(part.status));
    if (tag) this.text(part.middle, top + tag, tag_of(part.ranges, part.width - 6), "vmm-small");
  }
  // To scale, what PyTorch's blocks take of it.
  live({ x, width, offset, end, size, status }, { process, base, others }, y) {
    const blocks = others.length || status == GONE ? null
      : this.scene.lives.torch.within(process, base + offset, base + end, this.scene.to);
    if (!blocks?.length) return;
    const to_scale = { x: x + 2 - INSET, width: width - 4 + 2 * INSET, size };
    const ranges = blocks.map((block) => [block.begin - base - offset, block.end - base - offset]);
    this.bar("vmm-live", y, bar_of(to_scale, ranges));
  }
  bar(kind, y, parts) {
    const path = parts.map(([x, to]) => `M${x.toFixed(1)} ${Math.round(y)} H${to.toFixed(1)}`);
    if (path.length) this.path(path.join(" "), kind);
  }

  // --- Memory
  // A box of memory with these texts, the first of them bold, and below them badges.
  box(box, texts, badges, top = box.y, kind = fill_of(box)) {
    const middle = box.x + box.width / 2;
    this.rect(box.x, box.y, box.width, box.height, kind, box.mark, this.tooltips?.memory(box));
    this.hatch(box.x, box.y, box.width, box.height, box);
    texts.forEach((text, index) =>
      this.text(middle, top + 17 + 16 * index, text, index ? "vmm-small" : text_kind(box.status)));
    this.badges(middle, top + 8 + 16 * texts.length, badges, box);
  }
  badges_of(box) {
    return this.scene.badges(box, this.is_terse);
  }
  badges(middle, y, badges, box) {
    badges.forEach((badge, index) => this.badge(middle, y + BADGE * index, badge, box.status));
  }
  badge(middle, y, { text, status }, status_of_box) {
    if (text == "no handle") return this.text(middle, y + 12, text, "vmm-small");
    const width = width_of(text, 12) + 8, status_of_pill = status == NEW && status_of_box == NEW ? KEPT : status;
    this.rect(middle - width / 2, y, width, 17, "vmm-pill", status_of_pill);
    this.text(middle, y + 13, text, status == GONE ? "vmm-small vmm-was" : "vmm-small");
  }

  // What stands below the memory, and what the marks mean.
  end(y) {
    let x = MARGIN;
    if (this.extras.length) y += 10;
    for (const { text, status, about, unfold } of this.extras) {
      const [first, ...more] = lines_of(text.split(" "), " ", this.free - 16, 12);
      const width = Math.min(width_of(text, 12) + 16, this.free);
      if (x > MARGIN && x + width > MARGIN + this.free) [x, y] = [MARGIN, y + 23];
      if (status != KEPT) this.rect(x, y, width, 20 + 16 * more.length, "vmm-pill", status);
      const marks = { data_about: this.tooltips && about, data_unfold: unfold };
      this.text(x + 8, y + 14, first, "vmm-left vmm-small", marks);
      for (const line of more) this.text(x + 8, (y += 16) + 14, line, "vmm-left vmm-small");
      x += width + 8;
    }
    y = this.legend(y + (this.extras.length ? 35 : 12));
    return { elements: this.elements, height: Math.round(y + MARGIN), width: this.width };
  }
  legend(y) {
    const { kinds, scene: { from, to } } = this, when = to - from > 1 && !this.title ? "these steps" : "this step";
    const swatch = (x, y, status) => this.rect(x + 2, y + 2, 22, 14, "vmm-box", status);
    const all = [
      ["vmm-new", `made or changed in ${when}`, (x, y) => swatch(x, y, NEW)],
      ["vmm-gone", `taken away in ${when}`, (x, y) => swatch(x, y, GONE)],
      ["vmm-fault", "the access that is a fault", (x, y) => this.path(`M${x + 13} ${y + 16} l-6 -11 h12 z`,
        "vmm-fault-at")],
      [!this.title && "vmm-unmapped", "created, not mapped", (x, y) => this.rect(x + 2, y + 2, 22, 14,
        "vmm-box vmm-unmapped vmm-rim0")],
      ["vmm-hatch", "imported, source not known", (x, y) => {
        swatch(x, y, KEPT);
        this.path(diagonals(x + 2, y + 2, 22, 14), "vmm-hatch");
      }],
      ["vmm-live", "PyTorch's blocks", (x, y) => {
        swatch(x, y, KEPT);
        this.bar("vmm-live", y + 5, [[x + 4, x + 15]]);
      }],
      ["vmm-track", "mapped, to scale", (x, y) => {
        this.bar("vmm-track", y + 9, [[x + 2, x + 24]]);
        this.bar("vmm-true", y + 9, [[x + 2, x + 9]]);
      }]].filter(([kind]) => kinds.has(kind));
    let x = MARGIN;
    for (const [, words, draw] of all) {
      if (x > MARGIN && x + 32 + width_of(words, 12) > this.width) [x, y] = [MARGIN, y + 20];
      x = Math.round(x);
      draw(x, Math.round(y));
      this.text(x + 32, y + 14, words, "vmm-left vmm-small");
      x += 62 + width_of(words, 12);
    }
    return all.length ? y + 18 : y - 12;
  }
}
