// SPDX-License-Identifier: MIT-0
// Steps through the recordings that page.py has put into this page. What a recording says becomes text, never a tag;
// the elements of the frames are those that frames.py drew.
document.addEventListener("DOMContentLoaded", () => {
  const html = `
    <div class="vmm-controls" role="group" aria-label="Steps">
      <button type="button">First</button><button type="button">Back</button>
      <span class="vmm-number"></span>
      <button type="button">Forward</button><button type="button">Last</button>
      <input type="range" min="1" aria-label="Step"><a class="vmm-link">Link to this step</a>
    </div>
    <p class="vmm-caption" aria-live="polite"></p>
    <p class="vmm-refused-words"></p>
    <div class="vmm-columns">
      <div class="vmm-program">
        <p class="vmm-where"></p>
        <div class="vmm-source" tabindex="0" role="region" aria-label="Source"></div>
      </div>
      <div class="vmm-frame">
        <div class="vmm-scroll" tabindex="0" role="group" aria-label="Address spaces and memory"></div>
        <div class="vmm-tip" aria-hidden="true" hidden></div>
      </div>
    </div>
    <p class="vmm-keys">Keys: left and right, Home and End step; in the picture, up and down go from range to range, and
      Escape hides what is said of it; in the list, up and down go to the next call that is listed.</p>
    <details class="vmm-calls" open>
      <summary>The calls, listed</summary>
      <div class="vmm-filter" role="group" aria-label="Which calls are listed"></div>
      <div class="vmm-list" tabindex="0" role="listbox" aria-label="The calls"></div>
    </details>`;

  async function unpack(letters) {
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  }

  async function begin(view) {
    const data = await unpack(view.querySelector("script").textContent);
    const { steps, elements, frames } = data;
    if (!steps.length) return;
    const key = view.dataset.key, last = steps.length;
    const panel = document.createElement("div");
    panel.className = "vmm-steps";
    panel.innerHTML = html;
    view.append(panel);
    view.classList.add("vmm-live");
    const part = (name) => panel.querySelector(`.vmm-${name}`);
    const [first, back, forward, end] = panel.querySelectorAll(".vmm-controls button");
    const slider = panel.querySelector("input"), source = part("source"), scroll = part("scroll"), tip = part("tip");
    const list = part("list"), row = 1.6 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    let at = 0, shown = "", timer = 0;  // the step; the file whose text is shown
    const has_address = location.href != "about:srcdoc";  // it has none inside another page, as in a notebook
    part("link").hidden = !has_address;
    const room = document.createElement("div");  // gives the list its height
    list.append(room);
    let listed = steps.map((_, index) => index + 1);  // the numbers of the steps in the list

    // The frame of a step: from the last whole one on, the differences.
    function frame(number) {
      let elements = [], height = 0;
      for (let i = number - 1 - ((number - 1) % data.keyframe); i < number; i++) {
        if (!frames[i]) continue;
        const [its_height, head, tail, ...middle] = frames[i];
        elements = [...elements.slice(0, head), ...middle, ...elements.slice(elements.length - tail)];
        height = its_height;
      }
      return { elements, height };
    }

    function draw() {
      const ranges = [...scroll.querySelectorAll("[data-about]")], focused = ranges.indexOf(document.activeElement);
      const { elements: its, height } = frame(at);
      hide();
      scroll.innerHTML = `<svg class="vmm-picture" role="group" aria-label="The picture of step ${at}" viewBox="0 0 ${
        data.width} ${Math.max(height, data.tallest)}">${its.map((index) => elements[index]).join("")}</svg>`;
      const now = scroll.querySelectorAll("[data-about]");
      for (const range of now) {
        range.tabIndex = -1;
        range.setAttribute("role", "img");
        range.setAttribute("aria-label", range.dataset.about);
      }
      if (focused >= 0) (now[Math.min(focused, now.length - 1)] ?? scroll).focus({ preventScroll: true });
    }

    // The line that has just run, and the one that this process runs next.
    function show_source() {
      const { place: [file, line, name], led_there, process } = steps[at - 1];
      const next = steps.slice(at, at + 2000).find((step) => step.process == process)?.place;
      const has_text = Boolean(data.sources[file]);
      if (has_text && file != shown) {
        source.replaceChildren(...data.sources[file].split("\n").map((text, index) => {
          const row = document.createElement("div");
          row.dataset.line = index + 1;
          row.textContent = text;
          return row;
        }));
        shown = file;
      }
      for (const row of source.querySelectorAll(".vmm-ran, .vmm-next")) row.classList.remove("vmm-ran", "vmm-next");
      const of = name ? ` in ${name}` : "", called = led_there.length ? `; called in ${led_there.join(", in ")}` : "";
      if (has_text) {
        source.children[line - 1]?.classList.add("vmm-ran");
        const goes_on = next && next[0] == file && next[1] != line;
        if (goes_on) source.children[next[1] - 1]?.classList.add("vmm-next");
        part("where").textContent = `${file}${of}: ▶ line ${line} has just run` +
          (goes_on ? `, ▷ line ${next[1]} is next` : next && next[1] == line ? ", and runs once more" : "") + called;
        const row = source.children[line - 1];
        if (row) source.scrollTop = row.offsetTop - source.clientHeight / 2;
      } else {
        shown = "";
        source.replaceChildren();
        part("where").textContent = file ? `${file}:${line}${of}. Its text is not in the recording.`
          : name ? `There is no source. The function is ${name}.` : "There is no source for this call.";
      }
      source.hidden = !has_text;
    }

    // Of the list, the rows that are seen.
    function draw_list() {
      const from = Math.max(0, Math.floor(list.scrollTop / row) - 3), count = Math.ceil(list.clientHeight / row) + 6;
      const rows = listed.slice(from, from + count).map((number, index) => {
        const entry = document.createElement("div"), { call, kind, process, place } = steps[number - 1];
        const [file, line, name] = place;
        entry.className = `vmm-${kind}`;
        entry.id = `${key}-call-${number}`;
        entry.dataset.number = number;
        entry.style.top = `${(from + index) * row}px`;
        entry.setAttribute("role", "option");
        entry.setAttribute("aria-selected", number == at);
        entry.setAttribute("aria-setsize", listed.length);
        entry.setAttribute("aria-posinset", from + index + 1);
        const of = data.processes > 1 ? `process ${process + 1}: ` : "";
        entry.textContent = `${String(number).padStart(5)} ${of}${call}${kind == "refused" ? " was refused" : ""}` +
          (file ? `  ${file}:${line}` : name ? `  in ${name}` : "");
        return entry;
      });
      list.replaceChildren(room, ...rows);
      const is_there = rows.some((entry) => entry.dataset.number == at);
      if (is_there) list.setAttribute("aria-activedescendant", `${key}-call-${at}`);
      else list.removeAttribute("aria-activedescendant");
    }

    // Scrolls the list, not the page, to the step or to where it would be.
    function show_in_list() {
      room.style.height = `${listed.length * row}px`;
      const index = listed.findIndex((number) => number >= at);
      const top = (index < 0 ? listed.length : index) * row;
      if (top < list.scrollTop || top + row > list.scrollTop + list.clientHeight)
        list.scrollTop = top - list.clientHeight / 2;
      draw_list();
    }

    function go(number, { push = false, write = true } = {}) {
      number = Math.min(Math.max(number, 1), last);
      if (number == at) return;
      if (push) write_address();  // so that the browser's Back leads to where one was
      at = number;
      const step = steps[at - 1];
      part("number").textContent = `step ${at} of ${last}`;
      part("caption").textContent = step.words;
      part("refused-words").textContent = step.explanation;
      slider.value = at;
      slider.setAttribute("aria-valuetext", `step ${at} of ${last}: ${step.call}`);
      for (const button of [first, back, forward, end]) {
        const focused = document.activeElement == button, goes_back = button == first || button == back;
        button.disabled = at == (goes_back ? 1 : last);
        if (button.disabled && focused) slider.focus();  // or the keys would no longer reach the view
      }
      part("link").href = `#${key}=${at}`;
      draw();
      show_source();
      show_in_list();
      if (push && has_address) history.pushState(null, "", `#${key}=${at}`);
      else if (write) {  // later, since browsers refuse many of these in a row
        clearTimeout(timer);
        timer = setTimeout(write_address, 300);
      }
    }
    function write_address() {
      clearTimeout(timer);
      if (has_address) history.replaceState(null, "", `#${key}=${at}`);
    }

    // A link to a step. One to something else is not ours, and one to what is no step leads to the nearest.
    function follow() {
      const [name, value] = location.hash.slice(1).split("=");
      if (name != key) return false;
      const number = Math.round(Number(value));
      clearTimeout(timer);
      go(Number.isNaN(number) || !value ? 1 : number, { write: false });
      if (value != at) write_address();
      view.scrollIntoView();
      return true;
    }

    // What is said of a range, beside it.
    function tell(range) {
      tip.textContent = range.dataset.about;
      tip.hidden = false;
      const box = range.getBoundingClientRect(), frame = tip.parentElement.getBoundingClientRect();
      const left = Math.min(box.left - frame.left, frame.width - tip.offsetWidth);
      const above = box.top - frame.top - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(0, left)}px`;
      tip.style.top = `${above >= 0 ? above : box.bottom - frame.top + 6}px`;
    }
    function hide() {
      tip.hidden = true;
    }
    const range_of = (target) => target.closest?.("[data-about]");
    scroll.addEventListener("pointerover", ({ target }) => range_of(target) && tell(range_of(target)));
    part("frame").addEventListener("pointerleave", () => {
      const focused = scroll.contains(document.activeElement) && range_of(document.activeElement);
      if (focused) tell(focused);
      else hide();
    });
    scroll.addEventListener("pointerout", ({ target, relatedTarget }) => {
      if (range_of(target) && relatedTarget != tip && !range_of(relatedTarget ?? tip)) hide();
    });
    scroll.addEventListener("focusin", ({ target }) => range_of(target) && tell(range_of(target)));
    scroll.addEventListener("focusout", hide);
    scroll.addEventListener("scroll", hide);
    document.addEventListener("keydown", ({ key }) => key == "Escape" && hide());

    function next_listed(way) {
      const number = way > 0 ? listed.find((its) => its > at) : listed.findLast((its) => its < at);
      if (number) go(number);
    }
    function next_range(way) {
      const ranges = [...scroll.querySelectorAll("[data-about]")], now = ranges.indexOf(document.activeElement);
      const last = ranges.length - 1, first = way > 0 ? 0 : last;
      ranges[now < 0 ? first : Math.min(Math.max(now + way, 0), last)]?.focus();
    }

    first.addEventListener("click", () => go(1, { push: true }));
    back.addEventListener("click", () => go(at - 1));
    forward.addEventListener("click", () => go(at + 1));
    end.addEventListener("click", () => go(last, { push: true }));
    slider.max = last;
    slider.addEventListener("input", () => go(Number(slider.value)));
    list.addEventListener("click", ({ target }) => {
      const entry = target.closest("[data-number]");
      if (entry) go(Number(entry.dataset.number), { push: true });
    });
    list.addEventListener("scroll", draw_list);
    view.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const upward = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (upward && event.target == list) next_listed(upward);
      else if (upward && scroll.contains(event.target)) next_range(upward);
      else if (event.target == slider) return;  // it knows these keys
      else if (event.key == "ArrowLeft") go(at - 1);
      else if (event.key == "ArrowRight") go(at + 1);
      else if (event.key == "Home") go(1);
      else if (event.key == "End") go(last);
      else return;
      event.preventDefault();
    });

    const kinds = { all: "All calls", changes: "Those that change something ✚", refused: "Those refused ✖" };
    for (const [kind, words] of Object.entries(kinds)) {
      const numbers = listed.filter((number) => kind == "all" || steps[number - 1].kind == kind);
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${words} (${numbers.length})`;
      button.setAttribute("aria-pressed", kind == "all");
      button.addEventListener("click", () => {
        listed = numbers;
        for (const each of button.parentElement.children) each.setAttribute("aria-pressed", each == button);
        show_in_list();
      });
      part("filter").append(button);
    }
    part("calls").addEventListener("toggle", show_in_list);
    part("calls").open = !view.dataset.opens;  // in the book it is folded
    addEventListener("hashchange", follow);
    if (!follow()) go(Number(view.dataset.opens ?? 1), { write: false });
  }

  // What shows without scripts: on paper too.
  function show_still() {
    for (const still of document.querySelectorAll(".vmm-view > noscript")) still.outerHTML = still.textContent;
  }
  matchMedia("print").addEventListener("change", show_still);
  addEventListener("beforeprint", show_still);

  for (const view of document.querySelectorAll(".vmm-view"))
    begin(view).catch((error) => {
      const said = document.createElement("p");
      said.textContent = `This browser cannot unpack the steps (${error}). A newer one can.`;
      view.prepend(said);
      view.classList.remove("vmm-live");
      show_still();
    });
});
