// SPDX-License-Identifier: MIT-0
// The timeline: what each GPU held over the calls or over time, of which a part can be looked at, and the slider in it.
// Timelines of two runs have one scale, and their peaks stand one above the other.
const most_columns = 1500, high = 1000;  // of the timeline; how high a lane is, in its own units
const most_lanes = 12;  // of threads: of more, each process has one
const most_crosses = 80, fewest = 8;  // marks of refusals that are more than a line; calls, or microseconds, of a part
const nothing = { held: {} };
const kinds_of_memory = { mapped: "mapped", idle: "created, not mapped", ordinary: "by cudaMalloc" };

// Microseconds, so exact that what is so far apart differs.
function time_text(time, apart = time) {
  const [unit, factor] = [["s", 1e6], ["ms", 1e3], ["µs", 1]].find(([, least]) => Math.abs(time) >= least) ?? ["µs", 1];
  const digits = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.max(apart, 1) / factor))));
  return `${+(time / factor).toFixed(digits)} ${unit}`;
}

class Timeline {
  constructor(view, element) {
    const { data, last } = view, { times, took } = data;
    Object.assign(this, { view, data, last, times, took, element, is_by_time: false, at: 1, origin: 0, pair: [this],
      both: element.dataset.of && element.closest(".vmm-both") });
    const peaks = data.lanes.map(({ changes }) => peak_of(changes)), peak = peak_of([{ step: 1, held: {} }, ...peaks]);
    Object.assign(this, { top: total(peak), peak: peak.step });
    element.innerHTML = `<div class="vmm-over"><div class="vmm-pointed" hidden></div><div class="vmm-range"></div>
      <div class="vmm-cursor"></div></div><div class="vmm-tip" aria-hidden="true" hidden></div>`;
    this.over = element.querySelector(".vmm-over");
    this.tip = element.querySelector(".vmm-tip");
    this.slider = make("input", { type: "range", min: 1, max: last, "aria-label": "Step" });
    element.append(this.slider);
    this.rows = [...this.rows_of_memory(peaks), ...this.rows_of_pieces(),
      ...element.dataset.of ? [] : [...this.rows_of_calls(), ...this.rows_of_work()]];
    this.axis = this.row("axis", [], () => this.labels());
    this.axis.classList.add("vmm-axis");
    element.classList.add(this.rows.length > 6 ? "vmm-many" : "vmm-few");
    this.add_tools();
    this.add_events();
    this.join();
  }
  row(kind, label, draw, attributes = {}) {
    const plot = make("div"), row = make("div", { class: `vmm-${kind}`, ...attributes },
      make("span", {}, ...label), plot);
    row.draw = () => (plot.innerHTML = draw());
    this.over.before(row);
    return row;
  }
  rows_of_memory(peaks) {
    return this.data.lanes.map(({ device, changes }, index) => this.row("lane",
      [make("b", {}, `GPU ${device}`), ` peak ${size_text(total(peaks[index]))}`, make("small")],
      () => this.lane(changes, peaks[index].step),
      { "data-gpu": device, style: `--vmm-fill:var(--vmm-gpu${device % 8})` }));
  }
  // What is free lies in pieces: since when, and how large the largest is.
  rows_of_pieces() {
    return this.data.pieces.map(({ kind, device, changes }) => {
      const label = device < 0 ? "holes" : `${this.data.lanes.length > 1 ? `GPU ${device}, ` : ""}PyTorch's free`;
      return this.row("pieces", [make("b", {}, label), make("small")],
        () => this.lane(changes, 0, total(peak_of(changes))), { title: kind });
    });
  }
  rows_of_calls() {
    const { steps } = this.data, all = steps.map((_, index) => index + 1);
    const by = (some, name) => grouped(some, (step) => steps[step - 1][name]).sort(([one], [other]) => one - other);
    const processes = by(all, "process"), of_one = processes.length == 1;
    const lanes = processes.flatMap(([process, made]) => by(made, "thread").map(([thread, some], _, { length }) =>
      [length == 1 ? of_one ? "calls" : `process ${process + 1}`
        : `${of_one ? "" : `P${process + 1}, `}thread ${thread + 1}`, some]));
    const shown = lanes.length <= most_lanes ? lanes
      : processes.map(([process, made]) => [of_one ? "calls" : `process ${process + 1}`, made]);
    return shown.map(([name, made]) => this.row("events", [name], () => this.events(made)));
  }
  rows_of_work() {
    return this.data.work.map(({ device, executions }) =>
      this.row("events", [`GPU ${device} busy`], () => this.busy(executions),
        { style: `--vmm-fill:var(--vmm-gpu${device % 8})` }));
  }
  // Two that stand one above the other: of the second is known what both have.
  join() {
    if (this.both) {
      this.pair = this.both.timelines = [...this.both.timelines ?? [], this];
      const top = Math.max(...this.pair.map((timeline) => timeline.top));
      for (const timeline of this.pair) Object.assign(timeline, { top, pair: this.pair });
    }
    this.show_axis(false);
  }

  // --- Where a step is on the axis: in calls, or in microseconds; of a pair from its peak
  begin(step) {
    return (this.is_by_time ? this.times[step - 1] : step - 1) - this.origin;
  }
  get end() {  // of the last step
    return (this.is_by_time ? this.times.at(-1) + 1 : this.last) - this.origin;
  }
  share(step) {
    const [from, to] = this.shown;
    return (this.begin(step) + (this.is_by_time ? 0 : 0.5) - from) / (to - from);
  }
  step_at(share) {
    const [from, to] = this.shown, value = from + share * (to - from) + this.origin;
    const nth = this.is_by_time ? first_from(this.times, Math.floor(value) + 1) : Math.floor(value) + 1;
    return Math.min(Math.max(nth, 1), this.last);
  }
  column(step) {
    return this.column_at(this.begin(step));
  }
  column_at(value) {
    const [from, to] = this.shown;
    return (value - from) / (to - from) * this.width;
  }
  // The columns in which a call goes on, as far as that is known and seen: by time, else it has its own.
  columns_of(step) {
    const end = this.begin(step), took = this.is_by_time && this.took?.[step - 1] || 0;
    return this.columns_between(end - took, end);
  }
  columns_between(begin, end) {
    const [first, last] = [begin, end].map((value) => Math.floor(this.column_at(value) + 1e-9));
    const [from, to] = [Math.max(first, 0), Math.min(last, Math.ceil(this.width) - 1)];
    return from > to ? [] : Array.from({ length: to - from + 1 }, (_, index) => from + index);
  }

  // --- What is looked at
  show_axis(is_by_time) {
    for (const timeline of this.pair) {
      timeline.is_by_time = is_by_time && Boolean(timeline.times);
      timeline.origin = 0;
      timeline.origin = this.pair.length > 1 ? timeline.begin(Math.max(1, timeline.peak)) : 0;
    }
    this.full_range = [Math.min(...this.pair.map(({ origin }) => -origin)),
      Math.max(...this.pair.map(({ end }) => end))];
    this.look_at(...this.full_range);
  }
  get is_full() {
    return this.shown[1] - this.shown[0] >= this.full_range[1] - this.full_range[0];
  }
  look_at(from, to) {
    const [first, end] = this.full_range, size = Math.min(Math.max(Math.round(to - from), fewest), end - first);
    from = size == end - first ? first : Math.min(Math.max(Math.round(from), first), end - size);
    for (const timeline of this.pair) {
      [timeline.full_range, timeline.shown] = [this.full_range, [from, from + size]];
      timeline.draw();
    }
    if (this.view.at) this.view.write_later();
  }
  zoom(factor, share = this.share(this.at)) {
    const [from, to] = this.shown, anchor = from + (share >= 0 && share <= 1 ? share : 0.5) * (to - from);
    this.look_at(anchor - (anchor - from) * factor, anchor + (to - anchor) * factor);
  }
  pan(share) {
    const [from, to] = this.shown, by = share * (to - from);
    this.look_at(from + by, to + by);
  }
  words() {  // of the address: what part, and by what
    const part = this.is_full ? "" : this.shown.map(Math.round).join("-");
    return this.is_by_time || part ? `,${this.is_by_time ? "t" : ""}${part}` : "";
  }
  follow(text) {
    const [, is_by_time, from, to] = text.match(/^(t?)(?:(\d+)-(\d+))?$/) ?? [];
    if (is_by_time == null || `,${text}` == this.words()) return;
    this.show_axis(Boolean(is_by_time));
    if (to) this.look_at(Number(from), Number(to));
  }

  // --- What is drawn
  draw() {
    const [from, to] = this.shown;
    this.width = this.is_by_time ? most_columns : Math.min(to - from, most_columns);
    for (const row of [...this.rows, this.axis]) row.draw();
    this.show_tools();
    this.hide();  // what was told is elsewhere now
    this.show(this.at, false);
  }
  chart(content, height) {
    return `<svg viewBox="0 0 ${this.width} ${height}" preserveAspectRatio="none" aria-hidden="true">${content}</svg>`;
  }
  // [column, what is held from there on]; of a column in which it changes, the moment that has the most.
  columns(changes) {
    const found = new Map([[0, nothing]]), { width } = this;
    let last = nothing, current = -1;
    for (const change of changes) {
      const x = change.step ? this.column(change.step) : -1, column = Math.floor(x + 1e-9);
      if (x >= width) break;
      if (x < 0) found.set(0, change);
      else {
        const before = column == current ? found.get(column) : x - column > 1e-6 ? last : change;
        const here = total(change) >= total(before) ? change : before;
        found.set(column, here);
        if (here != change) found.set(column + 1, change);
        current = column;
      }
      last = change;
    }
    const after = Math.ceil((this.end - this.shown[0]) / (this.shown[1] - this.shown[0]) * width - 1e-9);
    return [...found, ...after < width ? [[after, nothing]] : []].filter(([column]) => column < width);
  }
  lane(changes, peak, top = this.top) {
    const columns = this.columns(changes), { width } = this, kinds = Object.keys(changes[0].held);
    const paths = kinds.filter((kind) => columns.some(([, { held }]) => held[kind])).reverse().map((kind) => {
      const below = kinds.slice(0, kinds.indexOf(kind) + 1);
      let path = `M0 ${high}`, at = high;
      for (const [column, { held }] of columns) {
        const y = high - Math.round(high * sum(below.map((name) => held[name] ?? 0)) / top);
        if (y != at) path += `H${column}V${at = y}`;
      }
      return `<path class="vmm-${kind}" d="${path}H${width}V${high}z"/>`;
    });
    return this.chart(paths.join(""), high) + (peak ? this.mark(peak, "peak", "") : "");
  }
  mark(step, kind, text) {
    const share = this.share(step);
    return share >= 0 && share <= 1 ? `<i class="vmm-${kind}" style="left:${100 * share}%">${text}</i>` : "";
  }
  band(columns, kind) {
    const path = ranges_of(columns).map(([from, to]) => `M${from} 3h${to + 1 - from}v4h${from - to - 1}z`).join("");
    return `<path class="vmm-${kind}" d="${path}"/>`;
  }
  // A band where there are calls, a line for each launch, a cross for each refusal.
  events(made) {
    const columns_of = (some) => [...new Set(some.flatMap((step) => this.columns_of(step)))];
    const { steps } = this.data;
    const launches = columns_of(made.filter((step) => steps[step - 1].is_launch));
    const lines = launches.map((column) => `M${column + 0.5} 0v10`).join("");
    const wrong = made.filter((step) => is_kind.errors(steps[step - 1])).map((step) => this.mark(step, "cross", "✖"));
    return this.chart(`${this.band(columns_of(made), "calls-made")}<path class="vmm-launch" d="${lines}"/>`, 10)
      + wrong.filter(Boolean).slice(0, most_crosses).join("");
  }
  // When a GPU worked; over calls, which gave it work.
  busy(executions) {
    const columns = executions.flatMap(({ step, begin, end }) => this.is_by_time
      ? this.columns_between(begin - this.origin, end - this.origin) : this.columns_of(step));
    return this.chart(this.band(columns, "busy"), 10);
  }
  // The numbers of some steps, and when they were if the recording has that.
  labels() {
    const [from, to] = this.shown, texts = new Map();
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const step = this.step_at(this.is_by_time ? share : share * (1 - 1 / (to - from)));
      const place = this.is_by_time ? share : this.share(step), value = from + share * (to - from) + this.origin;
      if (Math.abs(place - share) > 0.1 || value < 0) continue;  // beyond this run, if that of a pair
      const time = this.is_by_time ? value : this.times?.[step - 1];
      const when = time == null ? "" : time_text(time, this.is_by_time && !this.is_full ? (to - from) / 4 : time);
      const number = (step > 1 ? "" : "step ") + step.toLocaleString("en");
      const shift = place < 0.02 ? 0 : place > 0.98 ? 1 : 0.5;  // of its width, to the left
      texts.set(this.is_by_time ? when : [number, when].filter(Boolean).join(" · "),
        `left:${100 * place}%;transform:translateX(${-100 * shift}%)`);
    }
    return [...texts].map(([text, style]) => `<i style="${style}">${text}</i>`).join("");
  }

  // --- The step
  show(at, may_follow = true) {
    const place = this.share(this.at = at);
    if (may_follow && (place < 0 || place > 1)) return this.pan(place < 0 ? place - 0.2 : place - 0.8);
    this.element.style.setProperty("--vmm-at", place);
    this.over.lastChild.hidden = place < 0 || place > 1;
    this.element.style.setProperty("--vmm-since", this.share(this.view.since || at));
    const held = this.view.held_at(at);
    for (const row of this.rows.slice(0, held.length)) row.querySelector("small").textContent = held.shift().now;
    this.slider.value = at;
    this.slider.setAttribute("aria-valuetext", this.view.in_words(at));
    if (this.slider.matches(":focus-visible")) this.tell(at);
  }
  point(share) {  // also at time in which there is no call
    const { times, took } = this, step = this.step_at(share), [from, to] = this.shown;
    const is_empty = this.is_by_time && step < this.last && share - this.share(step) > 0.005;
    const next_began = times?.[step] - (took?.[step] ?? 0), now = from + share * (to - from) + this.origin;
    const pause = `no call for ${time_text(next_began - times?.[step - 1])}, then step ${step + 1}`;
    const is_within = now > next_began ? `within step ${step + 1}, ${this.data.steps[step]?.call}` : pause;
    this.tell(step, (is_empty ? `${is_within}; before, ` : "") + this.works_at(now));
  }
  works_at(now) {
    if (!this.is_by_time) return "";
    return this.data.work.map(({ device, executions }) => {
      const { step } = executions.find(({ begin, end }) => begin <= now && now <= end) ?? {};
      return step ? `GPU ${device} works for step ${step}, ${this.data.steps[step - 1].call}; ` : "";
    }).join("");
  }
  tell(step, before = "") {
    this.tip.textContent = before + this.view.in_words(step);
    this.element.style.setProperty("--vmm-pointed-at", Math.min(Math.max(this.share(step), 0), 1));
    this.tip.hidden = this.over.firstChild.hidden = false;
  }
  hide() {
    this.tip.hidden = this.over.firstChild.hidden = true;
  }

  // --- What works it
  add_tools() {
    if (this.both?.timelines) return;  // those of one are of both
    const button = (text, name, does) => make_button(text, does, { "aria-label": name, title: name });
    this.by = [["Calls", false], ["Time", true]].map(([text, is_by_time]) =>
      button(text, `The axis: ${text.toLowerCase()}`, () => this.show_axis(is_by_time)));
    this.parts = [button("−", "Zoom out", () => this.zoom(2)), button("◀", "Earlier", () => this.pan(-0.5)),
      button("▶", "Later", () => this.pan(0.5)),
      button("Whole", "The whole", () => this.look_at(...this.full_range))];
    const zoom = button("+", "Zoom in", () => this.zoom(0.5)), groups = [[zoom, ...this.parts]];
    if (this.times) groups.unshift(this.by);
    const first = (this.both || this.element.parentElement).querySelector(".vmm-timeline");
    first.before(make("p", { class: "vmm-legend" }, ...this.legend()),
      make("div", { class: "vmm-tools", role: "group", "aria-label": "The timeline" },
        ...groups.map((buttons) => make("span", { class: "vmm-tabs" }, ...buttons))));
  }
  show_tools() {
    this.by?.forEach((button, index) => button.setAttribute("aria-pressed", this.is_by_time == Boolean(index)));
    this.parts?.forEach((button) => (button.disabled = this.is_full));
  }
  legend() {
    const { lanes, steps } = this.data, of = (kind, words) => make("span", { class: `vmm-key vmm-${kind}` }, words);
    const has = ([kind]) => lanes.some(({ changes }) => changes.some(({ held }) => held[kind]));
    const all = Object.entries(kinds_of_memory).filter(has).map(([kind, words]) => of(kind, words));
    for (const entry of all) entry.style.setProperty("--vmm-fill", `var(--vmm-gpu${lanes[0].device % 8})`);
    all.push(of("peak", "peak"));
    if (this.data.pieces.length)
      all.push(of("largest", "the largest free piece"), of("scattered", "other free pieces"));
    const has_calls = !this.element.dataset.of;
    if (has_calls && steps.some(is_kind.launches)) all.push(of("launch", "launch"));
    if (has_calls && steps.some(is_kind.errors)) all.push(of("wrong", "error"));
    return [...all, make("span", {}, "not counted: contexts, what pools keep free, managed memory")];
  }
  add_events() {
    const { over, slider } = this;
    const share_of = ({ offsetX }) => Math.min(Math.max(offsetX / over.clientWidth, 0), 1);
    over.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      over.setPointerCapture(event.pointerId);
      slider.focus({ preventScroll: true });
      this.view.go(this.pressed = this.step_at(share_of(event)));
    });
    over.addEventListener("pointermove", (event) => {
      this.point(share_of(event));
      if (over.hasPointerCapture(event.pointerId)) this.view.go(this.step_at(share_of(event)), { since: this.pressed });
    });
    over.addEventListener("pointerleave", () => this.hide());
    over.addEventListener("wheel", (event) => this.turned(event, share_of(event)), { passive: false });
    slider.addEventListener("input", () => this.view.go(Number(slider.value)));
    slider.addEventListener("focus", () => slider.matches(":focus-visible") && this.tell(this.at));
    slider.addEventListener("blur", () => this.hide());
  }
  // The wheel scrolls the page where that scrolls, unless Ctrl is held or it turns sideways.
  turned(event, share) {
    const { scrollHeight, clientHeight } = document.scrollingElement, { deltaX, deltaY, shiftKey, ctrlKey } = event;
    const by = Math.abs(deltaX) > Math.abs(deltaY) ? deltaX : shiftKey ? deltaY : 0;
    if (!by && !ctrlKey && scrollHeight > clientHeight) return;
    event.preventDefault();
    if (by) this.pan(by / 1000);
    else this.zoom(Math.exp(Math.min(Math.max(deltaY, -200), 200) / 300), share);
    this.point(share);
  }
}
