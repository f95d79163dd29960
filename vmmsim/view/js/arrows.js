// SPDX-License-Identifier: MIT-0
// A picture of few things: who may touch which addresses, and arrows to the memory that is behind them.
//
// From top to bottom: a process's reservations with the mappings in them; what each GPU may do there; arrows to
// physical memory, a panel for each GPU. A second process, or a multicast object with its addresses, comes from below,
// so that no arrows need to cross. Where widths are not to scale, a thin bar in a reservation shows what is mapped.
const team_text = ({ team }) => team.map((device) => `GPU ${device}`).join(" and ") || "no GPU yet";
const object_text = (box) => `multicast object, ${size_text(box.size)}, team of ${team_text(box)}`;

class ArrowDrawing extends Drawing {
  constructor(scene, { measures = in_views, ...more } = {}) {
    super(scene, more);
    Object.assign(this, { measures, count: scene.devices.length, is_terse: false });
    this.join();
    this.objects = this.boxes.filter((box) => box.is_multicast);
  }
  // Three or more neighbours that are alike, each with memory of its own that is mapped nowhere else, are one.
  join() {
    const { scene } = this, spaces = scene.spaces;
    const of = ({ size, status, handles, exports, is_held_by_fd }) =>
      JSON.stringify([size, status, handles.map(Object.values), exports.map(Object.values), is_held_by_fd]);
    const bindings = [...scene.memories.values()].flatMap((memory) => memory.bound);
    const bound = new Set(bindings.map(({ memory }) => memory));
    const can_join = (memory) => memory.mapped.length < 2 && !memory.team.length && !memory.bound.length
      && !bound.has(memory.nth);
    this.parts = new Map();  // by the number of memory: the parts that lead to it
    this.boxes = [];
    const joined = new Set();
    for (const region of spaces.flat()) {
      region.fill(scene.joined(region.inside, 3, (a, b) => can_join(a.memory) && can_join(b.memory)
        && of(a.memory) == of(b.memory)));
      for (const part of region.parts.filter(({ is_mapped }) => is_mapped)) {
        this.parts.set(part.memory.nth, [...this.parts.get(part.memory.nth) ?? [], part]);
        if (part.mappings.length < 2) continue;
        this.boxes.push(new Box(part.mappings.map(({ memory }) => memory)));
        for (const { memory } of part.mappings) joined.add(memory.nth);
      }
    }
    for (const [nth, memory] of scene.memories) if (!joined.has(nth)) this.boxes.push(new Box([memory]));
    this.boxes.sort((a, b) => a.nth - b.nth);
    this.box_of = new Map(this.boxes.flatMap((box) => box.memories.map(({ nth }) => [nth, box])));
  }
  targets(region) {
    return region.parts.filter((part) => part.is_mapped).map((part) => this.box_of.get(part.memory.nth));
  }

  draw() {
    this.place(this.head());
    this.strip(this.above);
    for (const panel of this.panels) this.panel(panel);
    this.arrows(this.above, this.above.end);
    for (const box of this.objects) this.object(box);
    if (this.below) {
      this.strip(this.below);
      this.arrows(this.below, this.below.y);
    }
    return this.end(this.bottom);
  }
  // --- Where all stands
  place(y) {
    const [above, below] = this.sides();
    const middle = this.count > 1 ? (region) => this.above_memory(region) : null;
    for (const regions of [above, below]) place_regions(regions, this.measures, this.width, 0.5, middle);
    this.above = this.strip_of(above, y, 0, true);
    this.below = null;
    this.place_panels(this.above.end + this.room_for_arrows(above), [...above, ...below]);
    this.bottom = this.memory_ends = this.panels[0].y + this.panels[0].height;
    if (this.objects.length) {
      this.bottom = this.place_objects(this.bottom + 44);
      if (below.length) this.below = this.strip_of(below, this.bottom + 40, 0, false);
    } else if (this.scene.spaces.length > 1)
      this.below = this.strip_of(below, this.bottom + this.room_for_arrows(below), 1, false);
    if (this.below) this.bottom = this.below.end;
  }
  sides() {  // the reservations above the memory, and those below
    let [above, below = []] = this.scene.spaces;
    if (this.objects.length) {  // what leads to an object comes from below
      const leads_there = (region) => this.targets(region).some((box) => box.is_multicast);
      [above, below] = [above.filter((region) => !leads_there(region)), above.filter(leads_there)];
    }
    return [above, [...below].sort((a, b) => this.above_memory(a) - this.above_memory(b))];
  }
  above_memory(region) {
    const devices = this.targets(region).map((box) => box.device);
    if (!devices.length || Math.min(...devices) < 0) return this.width / 2;
    const panel = (this.free + GAP) / this.count;
    return MARGIN + panel * (sum(devices) / devices.length + 0.5) + (LABEL - GAP - 6) / 2;
  }
  strip_of(regions, y, process, is_above) {
    const names = this.scene.devices.map((device) => `GPU ${device} has`);
    const lanes = lanes_of(regions, names, ({ access }, index) =>
      [right(access[index][0]), kind_of(access[index][0]), access[index][1]]);
    return new Strip(regions, this.measures, lanes, y, is_above, this.scene.processes[process]);
  }
  room_for_arrows(regions) {
    return regions.some((region) => region.parts.some((part) => part.is_mapped)) ? 40 : 14;
  }
  place_panels(y, regions) {
    const boxes = this.boxes.filter((box) => box.device >= 0), space = this.free - GAP * (this.count - 1);
    let panels, spare;
    for (this.is_terse of [false, true]) {
      panels = this.scene.devices.map((device, index) => this.panel_of(device, index, boxes, regions));
      spare = space - sum(panels.map(({ need }) => need)) - LABEL * this.count;
      if (spare >= 0) break;
    }
    if (spare < 0) throw new TooWide(`the memory is ${Math.round(-spare)} units too wide`);
    const most = Math.max(0, ...boxes.map((box) => this.badges_of(box).length));
    const height = 28 + BADGE * most + (most ? 8 : 0);
    const are_equal = Math.max(...panels.map(({ need }) => need)) + LABEL <= space / this.count;
    let x = MARGIN;
    for (const panel of panels) {
      const width = are_equal ? space / this.count : LABEL + panel.need + spare / this.count;
      Object.assign(panel, { x, y, width, height: height + 20 });
      for (const box of panel.boxes) {
        box.width *= Math.min(1.25, (width - LABEL) / panel.need);
        [box.y, box.height] = [y + 10, height];
      }
      pack(panel.boxes, x + LABEL, x + width - BESIDE, BESIDE);
      x += width + GAP;
    }
    this.panels = panels;
  }
  panel_of(device, index, boxes, regions) {  // each box stands below the middle of the mappings that lead to it
    const own = boxes.filter((box) => box.device == device), parts = regions.flatMap((region) => region.parts);
    for (const box of own) {
      const middles = parts.filter((part) => part.is_mapped && part.memory.nth == box.nth).map((part) => part.middle);
      const wanted = middles.length ? middles : [this.width * (index + 0.5) / this.count];
      const badges = this.badges_of(box).map((badge) => width_of(badge.text, 12) + 18);
      box.wanted = sum(wanted) / wanted.length;
      box.width = Math.max(48, width_of(box.label()) + 10, ...badges);
    }
    own.sort((a, b) => a.wanted - b.wanted || a.nth - b.nth);
    return { device, boxes: own, need: own.length ? sum(own.map(({ width }) => width + BESIDE)) + BESIDE : 110 };
  }
  place_objects(y) {  // below the memory that is bound to them; returns where they end
    for (const box of this.objects) {
      box.width = width_of(object_text(box), 14) + 24;
      box.height = 34 + BADGE * this.badges_of(box).length;
      [box.x, box.y] = [(this.width - box.width) / 2, y];
      y += box.height;
    }
    return y;
  }

  // --- Memory
  panel({ device, boxes, x, y, width, height }) {
    this.rect(x, y, width, height, "vmm-panel");
    const middle = y + (height - 20) / 2;
    this.text(x + 10, middle + 7, `GPU ${device}`, "vmm-left vmm-bold");
    this.text(x + 10, middle + 23, "memory", "vmm-left");
    const nothing = this.ordinary.has(device) ? "by cudaMalloc only" : "nothing allocated";
    const lines = boxes.length ? [] : lines_of(nothing.split(" "), " ", width - LABEL - 4, 13);
    lines.forEach((line, index) =>
      this.text(x + (LABEL + width) / 2, middle + 15 + 16 * index - 8 * (lines.length - 1), line));
    for (const box of boxes) this.memory(box);
  }
  memory(box) {  // with its handles: those of the first process at the top, of the second at the bottom
    const badges = this.badges_of(box), is_upper = ({ process }) => process == 0 && this.scene.processes.length > 1;
    const upper = badges.filter(is_upper), lower = badges.filter((badge) => !is_upper(badge));
    const spare = badges.length ? 0 : (box.height - 26) / 2;
    this.box(box, [box.label()], lower, box.y + 3 + BADGE * upper.length + spare);
    this.badges(box.x + box.width / 2, box.y + 6, upper, box);
  }
  object(box) {
    this.box(box, [object_text(box)], this.badges_of(box), box.y + 2, "vmm-box");
    for (const { memory, status } of box.bound) {
      const target = this.box_of.get(memory);
      if (!target) continue;
      const to = target.x + target.width / 2, x = Math.min(Math.max(to, box.x + 20), box.x + box.width - 20);
      this.arrow(x, box.y, to, this.memory_ends - 10, status);
      this.text((x + to) / 2 + (to > this.width / 2 ? 30 : -30), box.y - 16, "bound", "vmm-small");
    }
  }

  // --- From each mapping to its memory
  arrows({ regions, is_above }, y) {
    const pairs = regions.flatMap((region) => region.parts).filter((part) => part.is_mapped)
      .map((part) => [part, this.box_of.get(part.memory.nth)]);
    for (const [part, box] of pairs) {
      const sources = pairs.filter(([, target]) => target == box).map(([source]) => source);
      const spread = Math.min(26, box.width / (sources.length + 1));
      const x = box.x + box.width / 2 + (sources.indexOf(part) - (sources.length - 1) / 2) * spread;
      this.arrow(part.middle, y, x, is_above ? box.y : box.y + box.height, part.status);
    }
  }
  arrow(x, y, to_x, to_y, status) {
    const way = to_y > y ? 1 : -1, end = to_y - 9 * way, bend = Math.round((y + end) / 2);
    const [from, to] = [Math.round(x), Math.round(to_x)];
    this.path(`M${from} ${Math.round(y)} C${from} ${bend} ${to} ${bend} ${to} ${Math.round(end)}`,
      marked("vmm-arrow", status));
    this.path(`M${to} ${Math.round(to_y)} l-5 ${-10 * way} h10 z`, marked("vmm-head", status));
  }
}
