// SPDX-License-Identifier: MIT-0
// Steps through the recordings that page.py has put into this page. What a recording says becomes text, never a tag;
// all figures are those that overview.py and lifetimes.py have.
const panel_html = `
  <div class="vmm-bar"><div class="vmm-controls" role="group" aria-label="Steps">
    <button type="button">First</button><button type="button">Back</button>
    <span class="vmm-number"></span>
    <button type="button">Forward</button><button type="button">Last</button>
  </div>
  <div class="vmm-more">
    <span class="vmm-tabs" role="group" aria-label="What is shown">
      <button type="button">Picture</button><button type="button">Who holds it</button>
    </span>
    <button type="button" class="vmm-copy">Copy link</button>
    <button type="button" class="vmm-ask" aria-label="Help">?</button>
  </div></div>
  <div class="vmm-columns">
    <div class="vmm-side">
      <div class="vmm-program">
        <p class="vmm-where"></p>
        <ol class="vmm-callers" tabindex="0" role="list" aria-label="What called it, the innermost first"></ol>
        <div class="vmm-source" tabindex="0" role="region" aria-label="Source"></div>
      </div>
      <div class="vmm-filter" role="group" aria-label="Which calls are listed">
        <input type="search" aria-label="Find" placeholder="Find: step, call, file:line, size, 0x…, #12, thread 2"
          spellcheck="false" autocomplete="off">
      </div>
      <div class="vmm-list" tabindex="0" role="listbox" aria-label="The calls"></div>
      <div class="vmm-life" role="region" aria-label="What is pinned" hidden></div>
    </div>
    <div class="vmm-sight">
      <p class="vmm-no-step" role="status" hidden></p>
      <p class="vmm-caption" aria-live="polite"></p>
      <details class="vmm-refused-words" hidden><summary></summary><p></p></details>
      <div class="vmm-frame">
        <div class="vmm-scroll" tabindex="0" role="group" aria-label="Address spaces and memory"></div>
      </div>
      <div class="vmm-held" tabindex="0" role="region" aria-label="Who holds it" hidden></div>
      <div class="vmm-tip" aria-hidden="true" hidden></div>
    </div>
  </div>
  <dialog class="vmm-help" aria-label="Keys">
    <table><caption>Keys</caption><tbody></tbody></table>
    <p>A click on a range of the picture pins it: its life is listed, and the same memory is marked everywhere. Drag
      over the timeline, and the words say what changed between two steps, the picture marks it, and a list has it by
      line.</p>
    <form method="dialog"><button>Close</button>
      <label><input type="checkbox" checked> Letters are keys</label></form>
  </dialog>`;
const keys = [
  ["← →", "back and forward, among the calls that are listed"], ["Home End", "the first and the last step"],
  ["Shift+← →", "from this step to another, and with Shift+Home or End to the first or last: what changed between"],
  ["h", "who holds it, or what changed in a comparison; and back to the picture"],
  ["c", "copy the link to this step"],
  ["n p", "the next and the previous call that changes something"], ["r", "the next error; Shift+R the previous"],
  ["w s", "zoom into the timeline and out; also the wheel"],
  ["a d", "in a part of the timeline: earlier and later"], ["0 t", "the whole timeline; calls or time as its axis"],
  ["/", "find: a number and Enter lead to that step, in a comparison as its other end"],
  ["↑ ↓", "in the list: the next call; in the picture: the next range"],
  ["Enter", "in the picture: pin the range"], ["Esc", "hide what is said, end a comparison, unpin, leave the search"],
  ["?", "this"]];
const nearest = (all, at, way) => way > 0 ? all[first_from(all, at + 1)] : all[first_from(all, at) - 1];

class View {
  constructor(element, lives) {
    const { steps, times, took } = lives;
    Object.assign(this, { element, data: lives, steps, lives, key: element.dataset.key, last: steps.length,
      is_alone: "alone" in element.dataset, at: 0, since: 0, held: false, timer: 0 });
    this.has_address = location.href != "about:srcdoc";  // it has none inside another page, as in a notebook
    this.panel = make("div", { class: "vmm-steps" });
    this.panel.innerHTML = panel_html;
    this.part = (name) => this.panel.querySelector(`.vmm-${name}`);
    element.append(this.panel);
    element.classList.add("vmm-live");
    const others = document.querySelectorAll(`[data-of="${this.key}"]`);  // beside that of another run
    const places = [...element.querySelectorAll(".vmm-timeline"), ...others];
    this.timelines = places.map((place) => new Timeline(this, place));
    [this.timeline] = this.timelines;
    this.source = new Source(this);
    this.picture = new Picture(this);
    this.picture.resized();
    this.panel.style.setProperty("--vmm-tallest", this.picture.tallest);
    this.list = new List(this);
    this.add_buttons();
    this.add_keys();
    this.add_links();
    if (!this.follow()) {
      const { number, held } = this.meant(`#${this.key}=${element.dataset.opens}`);
      this.go(number, { write: false, held });
    }
    const widest = this.step_in_words(this.last).length + (times ? 22 : 0) + (took ? 12 : 0);
    this.part("number").style.minWidth = `min(${widest}ch, 100cqw)`;  // or the buttons would move
    this.list.choose();
    addEventListener("resize", () => this.picture.resized());
  }
  add_buttons() {
    const { part, list } = this;
    this.controls = [...this.panel.querySelectorAll(".vmm-controls > button")];
    const does = [() => this.go(list.listed[0], { push: true }), () => this.go_listed(-1),
      () => this.go_listed(1), () => this.go(list.listed.at(-1), { push: true })];
    this.controls.forEach((button, index) => button.addEventListener("click", does[index]));
    this.tabs = [...part("tabs").children];
    this.tabs.forEach((tab, index) => tab.addEventListener("click", () =>
      this.go(this.at, { held: index > 0, since: this.since })));
    this.name_regions();
    this.copier = part("copy");
    this.copier.hidden = !this.has_address;
    this.copier.addEventListener("click", () => this.copy());
    this.help = part("help");
    part("ask").addEventListener("click", () => this.help.showModal());
    this.help.querySelector("tbody").append(...keys.map(([names, does]) =>
      make("tr", {}, make("th", { scope: "row" }, names), make("td", {}, does))));
    this.letters = this.help.querySelector("input");
  }

  // Those of several views in a page are told apart.
  name_regions() {
    const all = [...document.querySelectorAll(".vmm-view")], nth = all.indexOf(this.element) + 1;
    if (all.length > 1)
      for (const region of this.panel.querySelectorAll("[role=region]"))
        region.setAttribute("aria-label", `${region.getAttribute("aria-label")}, view ${nth}`);
  }

  // --- Where one is
  go_listed(way) {
    this.go(nearest(this.list.listed, this.at, way) ?? this.at);
  }
  go_kind(kind, way) {
    const all = this.steps.flatMap((step, index) => is_kind[kind](step) ? [index + 1] : []);
    this.go(nearest(all, this.at, way) ?? this.at);
  }
  // since: the step at which the range begins whose end this is.
  go(number, { push = false, write = true, held = this.held, since = 0 } = {}) {
    number = Math.min(Math.max(number, 1), this.last);
    if (number == this.at && held == this.held && since == this.since) return;
    if (push) this.write_address();  // so that the browser's Back leads to where one was
    [this.at, this.held, this.since] = [number, held, since];
    this.show();
    if (push && this.has_address) history.pushState(null, "", this.address());
    else if (write) this.write_later();
  }
  get is_range() { return this.since > 0 && this.since != this.at; }
  get range() {  // the step after which something is new, and that which is shown
    return this.is_range ? [this.since, this.at].sort((a, b) => a - b) : [this.at - 1, this.at];
  }
  show() {
    const { at, part } = this, step = this.steps[at - 1];
    this.list.scroll();  // first, for these ask where their lines are: nothing is to be laid out twice
    this.source.show(at);
    part("no-step").hidden = true;
    part("caption").replaceChildren(...this.with_code(this.is_range ? this.lives.between(...this.range) : step.words));
    this.copier.textContent = "Copy link";
    this.tabs[1].textContent = this.is_range ? "What changed, by line" : "Who holds it";
    const box = part("refused-words"), { explanation, cause } = step;
    box.hidden = !explanation;
    box.firstChild.replaceChildren(...this.with_code(cause));
    box.lastChild.replaceChildren(...this.with_code(explanation));
    box.classList.toggle("vmm-brief-words", cause == explanation);
    for (const timeline of this.timelines) timeline.show(at);
    this.show_number();
    this.list.draw();
    this.picture.draw();
    this.draw_tab();
  }
  show_number() {
    const { at, last, list: { listed }, data: { times } } = this, nth = listed.indexOf(at) + 1;
    const since = times && at > 1 ? `, ${time_text(times[at - 1] - times[at - 2])} after ${at - 1}` : "";
    const some = listed.length < last ? `, ${nth ? `${nth} of ` : ""}${listed.length} listed` : "";
    this.part("number").textContent = `${this.step_in_words(at)}${since}${some}`;
    this.controls.forEach((button, index) => {
      const focused = document.activeElement == button;
      const to = [listed[0], nearest(listed, at, -1), nearest(listed, at, 1), listed.at(-1)][index];
      button.disabled = !to || to == at;
      if (button.disabled && focused) this.timeline.slider.focus();  // or the keys would no longer reach the view
    });
  }
  step_in_words(at) {
    const time = this.data.times?.[at - 1], took = this.data.took?.[at - 1];
    const when = time == null ? "" : ` at ${time_text(time, 1e4)}`;
    const did = this.steps[at - 1].call == "wait" ? "had waited" : "took";  // when that was noted
    const duration = took == null ? "" : `, ${did} ${took ? time_text(took) : "under 1 µs"}`;
    return `step ${at} of ${this.last}${when}${duration}`;
  }
  held_at(at) {
    const pieces = this.data.pieces.map(({ kind, device, changes }) => {
      const change = last_of(changes, at), { held: { largest, scattered } } = change, all = size_text(total(change));
      if (device >= 0 && !this.lives.torch.tells(at)) return { words: `${kind}: not known`, now: "not known" };
      return { words: `${kind}: ${all}, the largest piece ${size_text(largest)}`,
        now: `${all}${scattered ? `, largest ${size_text(largest)}` : ""}` };
    });
    return [...this.data.lanes.map(({ device, changes }) => {
      const change = last_of(changes, at), { held: { mapped, idle, ordinary } } = change;
      const kinds = [[mapped, "mapped"], [idle, "not mapped"], [ordinary, "by cudaMalloc"]].filter(([size]) => size);
      const sizes = kinds.map(([size, words]) => `${size_text(size)} ${words}`);
      return { words: `GPU ${device}: ${sizes.join(", ") || "nothing"}`, now: `now ${size_text(total(change))}` };
    }), ...pieces];
  }
  in_words(at) {
    const step = this.steps[at - 1], who = [this.step_in_words(at), this.lives.whose(step), step.call].filter(Boolean);
    return [who.join(": "), ...this.held_at(at).map(({ words }) => words)].join("; ");
  }
  // Calls and results as code, steps as links.
  with_code(text) {
    const parts = text.split(/\b(step \d+|cu(?:da)?[A-Z]\w*|CU(?:DA)?_[A-Z_]+)\b/);
    return parts.map((word, index) => index % 2 == 0 ? word : word.startsWith("step ")
      ? make("a", { href: `#${this.key}=${word.slice(5)}` }, word) : make("code", {}, word));
  }

  // --- What is shown of a step: its picture, or who holds what
  draw_tab() {
    const { part, held } = this;
    [part("frame").hidden, part("held").hidden] = [held, !held];
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", held == index > 0));
    const { lives, key, at, range, is_range } = this;
    const shown = () => is_range ? new Comparison(lives, key, range) : new Ownership(lives, key, at);
    if (held) part("held").replaceChildren(...shown().parts());
  }
  unfold(kind) {
    this.go(this.at, { held: true });
    const fold = this.part("held").querySelector(`[data-kind=${kind}]`);
    if (fold && !fold.open) fold.dispatchEvent(new Event("toggle"));  // which it hears of later only
    if (fold) fold.open = true;
    fold?.scrollIntoView({ block: "nearest" });
  }

  // --- Addresses. One to something else is not ours, and one to what is no step leads to the nearest.
  address() {
    const range = this.is_range ? `,from${this.since}` : "";
    return `#${this.key}=${this.at}${this.held ? ",held" : ""}${range}${this.timeline.words()}`;
  }
  write_address() {
    clearTimeout(this.timer);
    if (this.has_address) history.replaceState(null, "", this.address());
  }
  async copy() {
    this.write_address();
    try {
      await navigator.clipboard.writeText(location.href);
      this.copier.textContent = "Link copied";
    } catch {  // a page that may not write there
      this.part("no-step").textContent = `The link: ${location.href}`;
      this.part("no-step").hidden = false;
    }
  }
  write_later() {  // since browsers refuse many of these in a row
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write_address(), 300);
  }
  meant(hash) {
    const [name, value] = hash.slice(1).split("="), [words, ...more] = (value ?? "").split(","), number = Number(words);
    const opens = this.at || parseInt(this.element.dataset.opens ?? 1), is_none = !words || Number.isNaN(number);
    const nearest = Math.min(Math.max(is_none ? opens : Math.round(number), 1), this.last);
    const held = more[0] == "held", unknown = String(nearest) == words ? "" : words;
    const since = Math.min(Number(more.find((word) => /^from\d+$/.test(word))?.slice(4) ?? 0), this.last);
    const part = more.find((word) => word != "held" && !word.startsWith("from"));
    return name == this.key ? { number: nearest, held, unknown, since, part } : null;
  }
  follow() {
    const address = this.meant(location.hash);
    if (!address) return false;
    const { number, held, since, part, unknown } = address;
    clearTimeout(this.timer);
    if (part) this.timeline.follow(part);
    this.go(number, { write: false, held, since });
    this.part("no-step").hidden = !unknown;
    this.part("no-step").textContent = `There is no step “${unknown.slice(0, 40)}”: there are 1 to ${this.last}. `
      + `This is step ${number}.`;
    if (location.hash != this.address()) this.write_address();
    if (!this.is_alone) this.element.scrollIntoView();
    return true;
  }
  add_links() {
    addEventListener("hashchange", () => this.follow());
    this.element.addEventListener("click", (event) => {  // links to steps: those of a page reach what is in it too
      const link = event.target.closest?.("a[href^='#']"), address = link && this.meant(link.getAttribute("href"));
      if (!address) return;
      event.preventDefault();
      const { number, held, since } = address, leads_on = held || this.held;
      this.go(number, { push: true, held, since });
      if (leads_on) this.part("sight").scrollIntoView({ block: "nearest" });
    });
  }

  // --- Keys: all over the page where the view is the page, else while the view has the focus
  add_keys() {
    this.by_letter = { n: () => this.go_kind("changes", 1), p: () => this.go_kind("changes", -1),
      r: () => this.go_kind("errors", 1), R: () => this.go_kind("errors", -1),
      w: () => this.timeline.zoom(0.5), s: () => this.timeline.zoom(2), a: () => this.timeline.pan(-0.5),
      d: () => this.timeline.pan(0.5), 0: () => this.timeline.look_at(...this.timeline.full_range),
      t: () => this.data.times && this.timeline.show_axis(!this.timeline.is_by_time),
      h: () => this.go(this.at, { held: !this.held, since: this.since }), c: () => this.has_address && this.copy(),
      "/": () => this.list.search.focus(), "?": () => this.help.showModal() };
    (this.is_alone ? document : this.element).addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("keydown", ({ key, target }) => key == "Escape" && this.escape(target));
  }
  pressed(event) {
    const { target, key: name } = event, { list, picture } = this, { search } = list;
    if (event.altKey || event.ctrlKey || event.metaKey || this.help.open) return;
    if (target == search) {
      const to = list.listed.find((number) => number >= this.at) ?? list.listed[0];
      if (name != "Enter" || !to) return;
      this.go(to, { push: true, since: this.since });
      return list.list.focus();
    }
    if (target.matches?.("textarea, select, input:not([type=range])")) return;
    const { at, since } = this, beside = (way) => nearest(list.listed, at, way);
    const to = { ArrowLeft: beside(-1), ArrowRight: beside(1), Home: 1, End: this.last }[name];
    const upward = { ArrowUp: -1, ArrowDown: 1 }[name], is_pin = target.closest?.("[data-pin]");
    if (upward && target == list.list) this.go_listed(upward);
    else if (upward && target.closest?.(".vmm-scroll")) picture.focus_next(upward);
    else if ((name == "Enter" || name == " ") && is_pin) picture.pin(target);
    else if (this.by_letter[name] && this.letters.checked) this.by_letter[name]();
    else if (to && event.shiftKey) this.go(to, { since: since || at });
    else if (target.closest?.(".vmm-timeline")) return;  // it knows these keys
    else if (to) this.go(to);
    else return;
    event.preventDefault();
  }
  escape(target) {
    const open = [this.picture, ...this.timelines].filter(({ tip }) => !tip.hidden);
    if (open.length) for (const part of open) part.hide();
    else if (this.help.open || !(this.is_alone || this.element.contains(target))) return;
    else if (this.since) this.go(this.at);
    else if (target != this.list.search) this.picture.pin(null);
    else this.list.leave();
  }
}

async function begin(element) {
  try {
    const lives = new Lifetimes(await unpack(element.querySelector("script").textContent));
    if (lives.steps.length) new View(element, lives);
  } catch (error) {
    element.prepend(make("p", {}, `This browser cannot unpack the steps (${error}). A newer one can.`));
    element.classList.remove("vmm-live");
  }
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".vmm-view").forEach(begin));
