// SPDX-License-Identifier: MIT-0
// The list of the calls, of which only the rows that are seen are there, and what finds in it.
class List {
  constructor(view) {
    const list = view.part("list"), filter = view.part("filter");
    Object.assign(this, { view, data: view.data, steps: view.steps, list, filter, chips: [], top: 0 });
    this.search = filter.querySelector("input");
    this.room = make("div");  // gives the list its height
    this.listed = this.steps.map((_, index) => index + 1);  // the numbers of the steps in it
    this.chosen = { kind: "all", words: "" };
    this.search.addEventListener("input", () => {
      this.choose(this.chosen.words = this.search.value);
      const number = view.lives.step_in(this.search.value);
      if (number) view.go(number, { since: view.since });
    });
    list.addEventListener("click", ({ target }) => {
      const entry = target.closest("[data-number]");
      if (entry) view.go(Number(entry.dataset.number), { push: true });
    });
    list.addEventListener("scroll", () => {
      this.top = list.scrollTop;
      this.draw();
    });
    list.append(this.room);  // or there would be nothing to scroll
    this.resized();
    new ResizeObserver(() => {
      this.resized();
      this.show();
    }).observe(list);
    this.add_chips();
    if ("folded" in view.element.dataset) {
      const calls = make("details", { class: "vmm-calls" }, make("summary", {}, "The calls, listed"));
      filter.before(calls);
      calls.append(filter, list);
    }
  }
  // What a step asks for nothing is laid out for: the list knows how high it is, and its rows.
  resized() {
    const style = getComputedStyle(this.list);
    const row = parseFloat(style.lineHeight) * style.getPropertyValue("--vmm-lines");
    Object.assign(this, { height: this.list.clientHeight, row, drawn: "" });
  }
  add_chips() {
    const kinds = { all: "All", changes: "✚ changes", errors: "✖ errors", answered: "↷ answered",
      launches: "▸ launches", captured: "◇ captured" };
    for (const [kind, words] of Object.entries(kinds))
      if (kind == "all" || this.steps.some(is_kind[kind])) {
        const button = make_button(words, () => this.choose(this.chosen.kind = kind));
        this.chips.push({ button, words, kind });
        this.filter.append(button);
      }
  }

  choose() {
    const { chosen, steps } = this, has = this.view.lives.fits_words(chosen.words);
    const found = steps.flatMap((step, index) => has(step, index + 1) ? [index + 1] : []);
    for (const { button, words, kind } of this.chips) {
      const numbers = found.filter((number) => is_kind[kind](steps[number - 1]));
      if (chosen.kind == kind) this.listed = numbers;
      button.textContent = `${words} (${numbers.length})`;
      button.setAttribute("aria-pressed", chosen.kind == kind);
    }
    this.list.classList.toggle("vmm-nothing", !this.listed.length);
    this.drawn = "";
    this.show();
    this.view.show_number();
  }
  leave() {
    if (this.search.value) this.choose(this.search.value = this.chosen.words = "");
    else this.list.focus();
  }

  draw() {
    const { list, row, listed } = this, { at, key } = this.view;
    const from = Math.max(0, Math.floor(this.top / row) - 3), count = Math.ceil(this.height / row) + 6;
    if (this.drawn != `${from}+${count}`) {
      this.rows = listed.slice(from, from + count).map((number, index) => this.entry(number, from + index));
      list.replaceChildren(this.room, ...this.rows);
      this.drawn = `${from}+${count}`;
    }
    this.selected?.setAttribute("aria-selected", false);
    this.selected = this.rows.find((entry) => entry.dataset.number == at);
    this.selected?.setAttribute("aria-selected", true);
    if (this.selected) list.setAttribute("aria-activedescendant", `${key}-call-${at}`);
    else list.removeAttribute("aria-activedescendant");
  }
  entry(number, index) {
    const step = this.steps[number - 1], { call, kind, brief, owner, place: { file, line } } = step;
    const look = step.is_answered ? "answered" : step.is_launch ? "launched" : kind;
    const entry = make("div", { class: `vmm-${look}`, id: `${this.view.key}-call-${number}`, "data-number": number,
      role: "option", "aria-selected": false, "aria-setsize": this.listed.length, "aria-posinset": index + 1 });
    entry.style.top = `${index * this.row}px`;
    const { lives } = this.view, of = lives.whose(step) ? [make("small", {}, lives.whose(step, true)), " "] : [];
    if (step.stream) of.push(make("small", { class: "vmm-stream", title: "stream" }, `S${step.stream}`), " ");
    // Of a kernel the grid is cut first, then the beginning of its name: its end tells it from the others.
    const change = kind == "refused" ? brief.replace(/^(CUDA_ERROR_|cudaError)/, "")
      : step.is_launch ? brief.replace(/^(\w+::)+/, "") : brief;
    const [name, grid = ""] = change.split(/(?=<<<)/), end = Math.max(name.length - 34, 0);
    const texts = step.is_launch ? [name.slice(0, end), name.slice(end), grid] : [change];
    const parts = [make("span", { class: "vmm-call" }, call), " ",
      make("span", { class: "vmm-brief" }, ...texts.map((text) => make("span", {}, text)))];
    const [library, own] = parts_of_owner(this.data.owners[owner]), by = library ? `${own} (${library})` : own;
    const [, where, more] = file ? [0, `${file}:${line}`, ""] : by.match(/^(\S*:\d+|)(.*)/);
    const wrong = { vanished: "vanished", wait: "never ends" }[call] ?? "refused";
    const mark = make("i", kind == "refused" ? { role: "img", "aria-label": wrong } : {}, mark_of(step));
    entry.append(mark, make("b", {}, String(number)), " ", ...of, ...step.is_launch ? parts.reverse() : parts,
      " ", make("span", { class: "vmm-from" }, make("span", { class: "vmm-place" }, where.replace(/.*\//, "")),
        make("span", { class: "vmm-by" }, more)));
    const head = [`step ${number}`, lives.whose(step), call].filter(Boolean).join(": ");
    entry.title = [head, brief, file ? `${file}:${line}` : this.data.owners[owner]].join("\n");
    return entry;
  }

  show() {
    this.scroll();
    this.draw();
  }
  // The list, not the page, to the step or to where it would be.
  scroll() {
    const { list, row, listed, height } = this, all = `${listed.length * row}px`;
    if (this.room.style.height != all) this.room.style.height = all;
    const top = first_from(listed, this.view.at) * row;
    if (top < this.top || top + row > this.top + height) {
      this.top = Math.max(0, Math.min(top - height / 2, listed.length * row - height));
      list.scrollTop = this.top;
    }
  }
}
