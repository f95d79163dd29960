// SPDX-License-Identifier: MIT-0
// The picture of a step on the page: what is said of its ranges, and what is pinned.
const narrowest = 340, samples = 24;

class Picture {
  constructor(view) {
    const part = view.part, sight = part("sight");
    Object.assign(this, { view, data: view.data, lives: view.lives, scroll: part("scroll"),
      tip: sight.lastElementChild, sight, life: part("life"), pinned: null, marked: [] });
    const range_of = (target) => target.closest?.("[data-about]"), { scroll } = this;
    const tell = ({ target }) => {
      const range = range_of(target) ?? (sight.contains(document.activeElement) && range_of(document.activeElement));
      if (range) this.tell(range);
      else this.hide();
    };
    for (const event of ["pointerover", "focusin"]) sight.addEventListener(event, tell);
    for (const event of ["pointerleave", "focusout"]) sight.addEventListener(event, () => this.hide());
    sight.addEventListener("scroll", () => this.hide(), true);
    sight.addEventListener("click", ({ target }) => {
      const element = target.closest("[data-pin]"), elided = target.closest("[data-unfold]");
      if (element) this.pin(element);
      else if (elided) view.unfold(elided.dataset.unfold);
      else if (scroll.contains(target)) this.pin(null);
    });
  }

  // As wide as the view, so that its letters can be read on a phone too. The highest so far fits into its room beside
  // the list, and all have one scale, however many words stand above.
  drawn(to, from = to - 1) {
    const { width } = this;
    const tallest = width < WIDTH ? 2 * TALLEST : TALLEST, drawn = draw(this.lives, { to, from, width, tallest });
    this.tallest = Math.max(this.tallest, Math.min(tallest, drawn.height));
    return drawn;
  }
  resized() {
    const width = Math.min(WIDTH, Math.max(narrowest, this.scroll.clientWidth || WIDTH));
    if (width == this.width) return;
    [this.width, this.tallest] = [width, 0];
    const { last, at } = this.view, every = Math.ceil(last / samples);
    for (let number = last; number > 0; number -= every) this.drawn(number);  // the heights of some
    if (at) this.draw();
  }
  ranges() {
    return [...this.scroll.querySelectorAll("[data-about]")];
  }
  draw() {
    this.hide();
    if (this.pinned) this.show_life();
    if (this.view.held) return;  // nobody sees it
    const focused = this.ranges().indexOf(document.activeElement);
    const { elements, height, width } = this.drawn(...this.view.range.reverse());
    this.scroll.innerHTML = `<svg class="vmm-picture" role="group" aria-label="The picture of step ${this.view.at}"
      viewBox="0 0 ${width} ${height}" style="--vmm-share: ${height / this.tallest}">${elements.join("")}</svg>`;
    const now = this.ranges();
    for (const range of now) {
      range.tabIndex = -1;
      range.setAttribute("role", range.dataset.pin ? "button" : "img");
      range.setAttribute("aria-label", range.dataset.about);
    }
    this.mark();
    if (focused >= 0) (now[Math.min(focused, now.length - 1)] ?? this.scroll).focus({ preventScroll: true });
  }
  focus_next(way) {
    const ranges = this.ranges(), now = ranges.indexOf(document.activeElement);
    ranges.at(now < 0 ? (way > 0 ? 0 : -1) : Math.min(Math.max(now + way, 0), ranges.length - 1))?.focus();
  }

  // --- What is said of a range, beside it
  tell(range) {
    const { tip } = this;
    tip.textContent = range.dataset.about;
    tip.hidden = false;
    const box = range.getBoundingClientRect(), frame = tip.parentElement.getBoundingClientRect();
    const left = Math.min(box.left - frame.left, frame.width - tip.offsetWidth);
    const above = box.top - frame.top - tip.offsetHeight - 6, end_of_words = this.scroll.parentElement.offsetTop;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${above < end_of_words ? box.bottom - frame.top + 6 : above}px`;
  }
  hide() {
    this.tip.hidden = true;
  }

  // --- Pins
  pin(element) {
    const range = element?.dataset.pin, is_new = range && this.pinned?.range != range;
    this.pinned = is_new ? { range, words: element.dataset.about, ...this.lives.meant(range, this.view.at) } : null;
    this.life.hidden = !this.pinned;
    if (this.pinned) this.show_life();
    this.mark();
  }
  mark() {
    for (const element of this.marked) element.classList.remove("vmm-pinned");
    this.marked = [];
    const { pinned, view } = this;
    if (!pinned) return;
    const kind = pinned.is_whole ? "reservations" : "memory";
    for (const element of this.scroll.querySelectorAll("[data-pin]")) {
      const range = this.lives.meant(element.dataset.pin, view.at);
      if (range.is_whole == pinned.is_whole && [...range[kind]].some((number) => pinned[kind].has(number)))
        this.marked.push(element);
    }
    for (const element of this.marked) element.classList.add("vmm-pinned");
  }
  // Of memory, and of the reservations in which it is mapped.
  show_life() {
    const { pinned: { words, memory, reservations, is_whole } } = this;
    const lives = (numbers, life) => {
      const more = numbers.size > 20 ? [`… and ${numbers.size - 20} more. Find one by its number, as #12.`] : [];
      return [...[...numbers].slice(0, 20).flatMap(life), ...more.map((text) => make("p", {}, text))];
    };
    const parts = [...is_whole ? [] : lives(memory, (nth) => this.life_of_memory(nth)),
      ...lives(reservations, (number) => this.life_of_reservation(number))];
    const close = make_button("×", () => this.pin(null), { "aria-label": "Unpin" });
    this.life.replaceChildren(close, ...parts.length ? parts : [make("p", {}, words)]);
  }
  life_of_reservation(number) {
    const { process, name, base, size, born, died } = this.data.reservations[number];
    const of = this.data.processes > 1 ? ` of process ${process + 1}` : "";
    const events = this.lives.mapped_in[number].flatMap((mapping) => [
      { step: mapping.born,
        text: `mapped: ${size_text(mapping.size)} #${mapping.memory} at offset ${exact(mapping.offset)}` },
      ...mapping.granted.map(({ step, device, flags }) => ({ step, text: `granted: GPU ${device} ${right(flags)}` })),
      { step: mapping.died, text: `unmapped: #${mapping.memory}` }]);
    events.push({ step: born, text: "reserved" }, { step: died, text: "freed" });
    return [make("h3", {}, `Reservation ${name}${of}, ${size_text(size)} at ${base}`), this.events(events)];
  }
  life_of_memory(nth) {
    const { size, device, is_multicast, events } = this.data.memory[nth - 1]
      || { size: 0, device: -1, is_multicast: false, events: [] };
    const noun = is_multicast ? "Multicast object" : "Allocation", of = device >= 0 ? ` of GPU ${device}` : "";
    return [make("h3", {}, `${noun} #${nth}, ${size ? size_text(size) : "size not known"}${of}`), this.events(events),
      ...this.blocks_in(nth)];
  }
  // PyTorch's blocks that lie in memory now.
  blocks_in(nth) {
    const { lives: { torch, mapped_of, reservations }, view: { at, key } } = this;
    const blocks = now_of(mapped_of[nth] ?? [], at).flatMap(({ reservation, offset, size }) => {
      const { process, base } = reservations[reservation], begin = Number(base) + offset;
      const all = process == torch.process ? torch.blocks_in(begin, begin + size, at) : [];
      return all.map(({ address, size: bytes, born, is_idle, stack }) => {
        const { name, where } = this.lives.frames(stack)[0] ?? { name: "", where: "not known where" };
        const words = `${size_text(bytes)} at ${hex(address)}${is_idle ? ", awaiting free" : ""}`;
        const since = born ? [" since ", make("a", { href: `#${key}=${born}` }, `step ${born}`)] : [];
        return make("li", {}, words, ...since, make("small", {}, ` ${where}${name && `, in ${name}`}`));
      });
    });
    const more = blocks.length > most ? [make("p", {}, `… and ${blocks.length - most} more`)] : [];
    if (!blocks.length) return [];
    return [make("h3", {}, `PyTorch's blocks there in step ${at}`), make("ol", {}, ...blocks.slice(0, most)), ...more];
  }
  events(all) {
    const { at, key } = this.view, events = all.filter(({ step }) => step).sort((a, b) => a.step - b.step);
    return make("ol", {}, ...events.slice(0, most).map(({ step: number, text }) => {
      const kind = number == at ? "vmm-here" : number > at ? "vmm-later" : "";
      const line = make("li", { class: kind }, make("a", { href: `#${key}=${number}` }, `step ${number}`), ` ${text}`);
      const { call, place: { file, line: row, name }, led_there } = this.data.steps[number - 1];
      const by = led_there.length ? `, called by ${led_there.join(" ← ")}` : "";
      line.append(make("small", {}, ` ${call}${file ? `, ${file}:${row}` : name ? `, in ${name}` : ""}${by}`));
      return line;
    }));
  }
}
