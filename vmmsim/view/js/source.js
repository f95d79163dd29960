// SPDX-License-Identifier: MIT-0
// The lines that make the call and the next of its thread; and the functions that led to a call without source here.
class Source {
  constructor(view) {
    const { data, lives, part } = view;
    Object.assign(this, { data, lives, part, source: part("source"), shown: "" });
    const { sources, stacks } = this.data, program = view.part("program");
    const has = Object.values(sources).some(Boolean) ? "source"
      : stacks.some((stack) => stack.length) ? "stacks" : "nothing";
    program.classList.add(`vmm-has-${has}`);  // of the whole recording: so that nothing jumps
    program.style.setProperty("--vmm-frames", Math.max(...stacks.map(({ length }) => length)));
    new ResizeObserver(() => this.scroll()).observe(this.source);  // or what is marked would be out of view
  }
  show(at) {
    const { steps, sources, owners } = this.data, step = steps[at - 1], { place } = step;
    const has = (file) => Object.hasOwn(sources, file) && sources[file] != "";
    const [library, own] = parts_of_owner(owners[step.owner]), [, asked, row] = /^(.*):(\d+)/.exec(own) ?? [];
    const is_shown = ({ name, where }) => !name || has(where.replace(/:\d+$/, "")), has_text = has(place.file);
    const all = this.lives.frames(step.stack), stack = has_text && all.every(is_shown) ? [] : all;
    const file = has_text ? place.file : library && has(asked) ? asked : "";
    if (file != this.shown)
      this.source.replaceChildren(...(sources[file] ?? "").split("\n").map((text, index) =>
        make("div", { "data-line": index + 1 }, text)));
    this.shown = file;
    this.source.hidden = !file;
    this.list_callers(stack);  // which takes room from the source
    this.part("where").textContent = has_text ? this.mark(at)
      : file ? `Called by ${library}, in another thread. ▷ The main thread had called last at ${own}.`
        : this.words_without(step, stack);
    if (file && !has_text) this.mark_lines(null, row);
  }
  mark_lines(ran, next) {
    const { source } = this, { children } = source;
    this.row = children[(ran ?? next) - 1];
    this.scroll();
    for (const line of source.querySelectorAll(".vmm-ran, .vmm-next")) line.classList.remove("vmm-ran", "vmm-next");
    children[ran - 1]?.classList.add("vmm-ran");
    children[next - 1]?.classList.add("vmm-next");
  }
  scroll() {
    const { source, row } = this;
    if (row) source.scrollTop = row.offsetTop + (row.offsetHeight - source.clientHeight) / 2;
  }
  // Marks the lines, and says it in words.
  mark(at) {
    const { steps } = this.data, { place: { file, line, name }, led_there, process, thread } = steps[at - 1];
    const is_of_thread = (step) => step.process == process && step.thread == thread;
    const next = steps.slice(at, at + 2000).find(is_of_thread)?.place;
    const stays = next?.file == file, goes_on = stays && next.line != line;
    this.mark_lines(line, goes_on ? next.line : null);
    const of = name ? ` in ${name}` : "", called = led_there.length ? `; called in ${led_there.join(", in ")}` : "";
    const does = stays && !goes_on ? "makes this call and the next" : "makes this call";
    const of_thread = this.lives.whose(steps[at - 1]).includes("thread") ? " of this thread" : "";
    const goes_to = goes_on ? `, ▷ line ${next.line} makes the next${of_thread}` : "";
    return `${file}${of}: ▶ line ${line} ${does}${goes_to}${called}`;
  }
  words_without({ place: { file, line, name }, owner }, stack) {
    if (file) return `${file}:${line}${name ? ` in ${name}` : ""}. Its text is not in the recording.`;
    if (!stack.length) return "There is no source for this call.";
    return `There is no source. Called by ${this.data.owners[owner]}. These functions led to the call:`;
  }
  list_callers(stack) {
    this.part("callers").replaceChildren(...stack.map(({ name, where }) =>
      make("li", { class: name ? "" : "vmm-folded" }, make("b", {}, name), ` ${where}`)));
    this.part("callers").hidden = !stack.length;
  }
}
