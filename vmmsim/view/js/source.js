// SPDX-License-Identifier: MIT-0
// The line that has just run, and the one that its process runs next; or the functions that led to the call.
class Source {
  constructor(view) {
    Object.assign(this, { data: view.data, part: view.part, source: view.part("source"), shown: "" });
    const { sources, stacks } = this.data;
    const has = Object.keys(sources).length ? "source" : stacks.some((stack) => stack.length) ? "stacks" : "nothing";
    view.part("program").classList.add(`vmm-has-${has}`);  // of the whole recording: so that nothing jumps
  }
  show(at) {
    const { steps, sources, stacks } = this.data, step = steps[at - 1], [file] = step.place;
    const has_text = Boolean(sources[file]), stack = has_text ? [] : stacks[step.stack];
    if (has_text && file != this.shown)
      this.source.replaceChildren(...sources[file].split("\n").map((text, index) =>
        make("div", { "data-line": index + 1 }, text)));
    else if (!has_text) this.source.replaceChildren();
    this.shown = has_text ? file : "";
    this.source.hidden = !has_text;
    this.part("where").textContent = has_text ? this.mark(at) : this.words_without(step, stack);
    this.list_callers(stack);
    this.part("program").classList.toggle("vmm-has-nothing", !has_text && !stack.length);
  }

  // Marks the lines, and says it in words.
  mark(at) {
    const { source, data: { steps } } = this, { place: [file, line, name], led_there, process } = steps[at - 1];
    const next = steps.slice(at, at + 2000).find((step) => step.process == process)?.place;
    const goes_on = next && next[0] == file && next[1] != line, row = source.children[line - 1];
    for (const each of source.querySelectorAll(".vmm-ran, .vmm-next")) each.classList.remove("vmm-ran", "vmm-next");
    row?.classList.add("vmm-ran");
    if (goes_on) source.children[next[1] - 1]?.classList.add("vmm-next");
    if (row) source.scrollTop = row.offsetTop - source.clientHeight / 2;
    const of = name ? ` in ${name}` : "", called = led_there.length ? `; called in ${led_there.join(", in ")}` : "";
    return `${file}${of}: ▶ line ${line} has just run` + (goes_on ? `, ▷ line ${next[1]} is next`
      : next && next[1] == line ? ", and makes the next call, too" : "") + called;
  }
  words_without({ place: [file, line, name], owner }, stack) {
    const of = name ? ` in ${name}` : "";
    if (file) return `${file}:${line}${of}. Its text is not in the recording.`;
    if (!stack.length) return "There is no source for this call.";
    return `There is no source. Called by ${this.data.owners[owner]}. These functions led to the call:`;
  }
  list_callers(stack) {
    this.part("callers").replaceChildren(...stack.map((number) => {
      const [name, where] = this.data.frames_of_code[number];
      return make("li", { class: name ? "" : "vmm-folded" }, make("b", {}, name), ` ${where}`);
    }));
    this.part("callers").hidden = !stack.length;
  }
}
