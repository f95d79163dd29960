// SPDX-License-Identifier: MIT-0
// A picture of many things, in rows and without arrows. What a mapping leads to is told by numbers: allocation #7 is #7
// among the addresses and in the memory.
const marks = { [NEW]: " (new)", [KEPT]: "", [GONE]: " (gone)" };

// Of all GPUs, in one lane.
const rights_in_words = ({ words, access }) =>
  [words, kind_of(Math.max(...access.map(([flags]) => flags))), access.some(([, changed]) => changed)];

class RowDrawing extends Drawing {
  constructor(aggregated, [most_regions, most_boxes], more) {
    super(aggregated.scene, more);
    Object.assign(this, { aggregated, most_regions, most_boxes, is_terse: true, widest: this.width - GUTTER - MARGIN,
      measures: this.width < WIDTH ? in_narrow_rows : in_rows });
  }
  draw() {
    const { aggregated, scene: { processes } } = this;
    const most = Math.floor(this.most_regions / Math.min(2, aggregated.full.size));
    let y = this.title ? this.head() + 8 : MARGIN;
    for (const process of aggregated.full)
      y = this.section(process, this.shown(process, most), y);
    const others = [], nothing = [];
    processes.forEach((name, process) => {
      const regions = aggregated.spaces[process].flat(), bytes = sum(regions.map((region) => region.bytes));
      if (aggregated.full.has(process)) return;
      if (regions.length) others.push(`${name}: ${plural(regions.length, "reservation")}, ${size_text(bytes)} mapped`);
      else nothing.push(process + 1);
    });
    if (nothing.length) others.push(`process${nothing.length > 1 ? "es" : ""} ${nothing.join(", ")}: nothing reserved`);
    return this.end(this.memory(this.small_lines(others, y) + 6));
  }
  // More than so many where that takes no row more.
  shown(process, most) {
    const { aggregated, widest, measures } = this, last = aggregated.spaces[process].length;
    const of = (count) => aggregated.shown(process, count, widest, measures);
    const rows = (regions) => this.rows(regions).length;
    let found = of(most);
    for (let more; most < last && rows(more = of(++most)) == rows(found);) found = more;
    return found;
  }
  rows({ regions }) {
    const widths = regions.map((region) => sum(least_widths(region, this.measures)) + 2 * INSET);
    return rows_of(regions, widths, this.widest, GAP);
  }
  section(process, { regions, more }, y) {
    if (this.scene.processes[process]) {
      this.text(MARGIN, y + 14, this.scene.processes[process], "vmm-left vmm-bold");
      y += 20;
    }
    for (const row of this.rows({ regions })) {
      place_regions(row, this.measures, this.width, 0);
      const strip = new Strip(row, this.measures, lanes_of(row, ["access"], rights_in_words), y);
      this.strip(strip);
      y = strip.end + 8;
    }
    if (!more) return y;
    const unfold = more.startsWith("…") ? "reservations" : "";  // a click lists all of them
    const x = width_of(more, 12) < this.widest ? GUTTER : MARGIN;
    for (const line of lines_of(more.split(", "), ", ", this.width - x - MARGIN, 12, ","))
      this.text(x, (y += 17) - 4, line, "vmm-left vmm-small", { data_unfold: unfold });
    return y + 3;
  }
  small_lines(texts, y) {
    const lines = lines_of(texts, "; ", this.free, 12);
    for (const line of lines) {
      this.text(MARGIN, y + 13, line, "vmm-left vmm-small");
      y += 18;
    }
    return y + (lines.length ? 4 : 0);
  }

  // --- All memory; returns where it ends
  memory(y) {
    const { aggregated, scene: { devices } } = this, without = [], empty = [];
    for (const device of [...devices, -1]) {
      const shown = aggregated.boxes_of(device, this.most_boxes, (boxes) => this.rows_of_boxes(boxes));
      const name = device >= 0 ? `GPU ${device}` : "elsewhere";
      if (shown.boxes.length) y = this.panel(name, shown, y) + 8;
      else if (device >= 0) empty.push(device);
    }
    for (const [has_ordinary, contents] of [[true, "memory by cudaMalloc only"], [false, "no allocations"]]) {
      const devices = empty.filter((device) => this.ordinary.has(device) == has_ordinary);
      if (devices.length)
        without.push(`${gpus_text(devices, true)} ${devices.length == 1 ? "holds" : "hold"} ${contents}`);
    }
    y = this.small_lines(without, y);
    const { shown, hidden } = aggregated.objects();
    for (const box of shown) y = this.object(box, y) + 8;
    if (!hidden) return y;
    this.text(MARGIN + 10, y + 13, `… and ${plural(hidden, "more multicast object")}`, "vmm-left vmm-small");
    return y + 20;
  }
  panel(name, { boxes, rest, bytes }, y) {
    const rows = this.rows_of_boxes(boxes);
    const heights = rows.map((row) => 42 + BADGE * Math.max(...row.map((box) => this.badges_of(box).length)));
    const height = Math.max(44, 14 + sum(heights) + BESIDE * rows.length + (rest.count ? 18 : 0));
    this.rect(MARGIN, y, this.free, height, "vmm-panel");
    this.text(MARGIN + 8, y + 20, name, `vmm-left ${width_of(name) < LABEL - 8 ? "vmm-bold" : "vmm-small"}`);
    this.text(MARGIN + 8, y + 36, size_text(bytes), "vmm-left vmm-small");
    this.text(MARGIN + 8, y + 51, "by VMM", "vmm-left vmm-small");  // what the timeline counts is more
    let top = y + 10;
    rows.forEach((row, index) => {
      let x = MARGIN + LABEL;
      for (const box of row) {
        Object.assign(box, { x, y: top, height: heights[index] });
        this.box(box, [box.label(), box.tag], this.badges_of(box));
        x += box.width + BESIDE;
      }
      top += heights[index] + BESIDE;
    });
    if (rest.count) {
      const more = `… and ${rest.count} more, ${size_text(rest.bytes)}`;
      this.text(MARGIN + LABEL, top + 10, more, "vmm-left vmm-small", { data_unfold: "memory" });
    }
    return y + height;
  }
  rows_of_boxes(boxes) {
    for (const box of boxes.filter(({ width }) => !width)) {
      const badges = this.badges_of(box).map((badge) => width_of(badge.text, 12) + 14);
      const label = width_of(box.label(), 14);  // bold
      box.tag = tag_of(box.ranges, Math.max(90, label));
      box.width = Math.max(56, label + 12, width_of_tag(box.tag) + 6, ...badges);
    }
    return rows_of(boxes, boxes.map(({ width }) => width), this.free - LABEL - BESIDE, BESIDE);
  }
  object(box, y) {
    const badges = this.badges_of(box), team = gpus_text(box.team, true) || "no GPU yet";
    const lines = [`multicast object #${box.nth}, ${size_text(box.size)}, team of ${team}`];
    const bound = box.bound.filter(({ memory }) => memory).map(({ memory, status }) => `#${memory}${marks[status]}`);
    const more = bound.length > 8 ? ` and ${bound.length - 8} more` : "";
    if (bound.length) lines.push(`bound: ${bound.slice(0, 8).join(", ")}${more}`);
    Object.assign(box, { x: MARGIN, y, width: this.free, height: 12 + 16 * lines.length + BADGE * badges.length });
    this.box(box, lines, badges, y, "vmm-box");
    return y + box.height;
  }
}
