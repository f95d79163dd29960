// SPDX-License-Identifier: MIT-0
// Steps through the recordings that page.py has put into this page. What a recording says becomes text, never a tag;
// the elements of the frames are those that frames.py drew, and all figures those that overview.py and lives.py have.
document.addEventListener("DOMContentLoaded", () => {
  const html = `
    <div class="vmm-bar"><div class="vmm-controls" role="group" aria-label="Steps">
      <button type="button">First</button><button type="button">Back</button>
      <span class="vmm-number"></span>
      <button type="button">Forward</button><button type="button">Last</button>
    </div>
    <div class="vmm-more">
      <span class="vmm-tabs" role="group" aria-label="What is shown">
        <button type="button" aria-pressed="true">Picture</button>
        <button type="button" aria-pressed="false">All reservations</button>
      </span>
      <a class="vmm-link">Link to this step</a><button type="button" class="vmm-save">Save picture</button>
      <button type="button" class="vmm-ask" aria-label="Help">?</button>
    </div></div>
    <p class="vmm-caption" aria-live="polite"></p>
    <details class="vmm-refused-words" hidden><summary></summary><p></p></details>
    <div class="vmm-columns">
      <div class="vmm-side">
        <div class="vmm-program">
          <p class="vmm-where"></p>
          <ol class="vmm-callers" tabindex="0" role="list" aria-label="What called it, the innermost first"></ol>
          <div class="vmm-source" tabindex="0" role="region" aria-label="Source"></div>
        </div>
        <div class="vmm-life" role="region" aria-label="What is pinned" hidden></div>
        <div class="vmm-filter" role="group" aria-label="Which calls are listed">
          <input type="search" aria-label="Find" placeholder="Find: call, function, file:line, 0x…, #12"
            spellcheck="false" autocomplete="off">
        </div>
        <div class="vmm-list" tabindex="0" role="listbox" aria-label="The calls"></div>
      </div>
      <div class="vmm-sight">
        <div class="vmm-frame">
          <div class="vmm-scroll" tabindex="0" role="group" aria-label="Address spaces and memory"></div>
          <div class="vmm-tip" aria-hidden="true" hidden></div>
        </div>
        <div class="vmm-map" tabindex="0" role="region" aria-label="All reservations, to scale" hidden></div>
      </div>
    </div>
    <dialog class="vmm-help" aria-label="Keys">
      <table><caption>Keys</caption><tbody></tbody></table>
      <p>A click on a range of the picture pins it: its life is listed, and the same memory is marked everywhere.</p>
      <form method="dialog"><button>Close</button>
        <label><input type="checkbox" checked> Letters are keys</label></form>
    </dialog>`;
  const keys = [
    ["← →", "back and forward, among the calls that are listed"], ["Home End", "the first and the last step"],
    ["n p", "the next and the previous call that changes something"], ["r", "the next refusal; Shift+R the previous"],
    ["/", "find"], ["↑ ↓", "in the list: the next call; in the picture: the next range"],
    ["Enter", "in the picture: pin the range"], ["Esc", "hide what is said, unpin, or leave the search"],
    ["?", "this"]];
  const units = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
  const most = 400;  // rows, or events, that are put into the page at once

  function size_text(size) {
    for (const [unit, bytes] of units) if (size >= bytes) return `${+(size / bytes).toFixed(1)} ${unit}`;
    return `${size} B`;
  }
  function exact(size) {
    for (const [unit, bytes] of units) if (size && size % bytes == 0) return `${size / bytes} ${unit}`;
    return `${size} B`;
  }
  // An element with these texts and elements in it.
  function make(tag, attributes = {}, ...inside) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  }
  const in_ranges = (text) => text.split(",").flatMap((range) => {
    const [from, to = from] = range.split("-").map(Number);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });

  function unpack(letters) {
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  const is_kind = { all: () => true, changes: (step) => step.kind == "changes",
    refused: (step) => step.kind == "refused", launches: (step) => step.is_launch };
  const mark_of = (step) =>
    step.kind == "refused" ? "✖" : step.kind == "changes" ? "✚" : step.is_launch ? "▸" : "";

  // What there is in a step, of the lives of all things.
  function lives_of({ reservations, mappings, memory, stacks, frames_of_code }) {
    const mapped_in = reservations.map(() => []);
    for (const mapping of mappings) mapped_in[mapping[0]].push(mapping);
    const is_there = (at, born, died) => born <= at && (!died || died > at);
    const now_mapped = (number, at) => mapped_in[number].filter(([, , , , born, died]) => is_there(at, born, died));
    const was_mapped = (number, at) =>  // or is unmapped in this step
      mapped_in[number].filter(([, , , , born, died]) => born <= at && (!died || died >= at));

    // What a pin of a picture means: r3,5-7 are reservations, r3:0:4096 a part of one, m4 memory.
    function meant(pin, at) {
      const [numbers, offset, size] = pin.slice(1).split(":");
      if (pin[0] == "m") return { memory: new Set(in_ranges(numbers)), reservations: new Set() };
      const is_in = ([, from, length]) => offset == null || (from < +offset + +size && from + length > +offset);
      const parts = in_ranges(numbers).flatMap((number) => was_mapped(number, at)).filter(is_in);
      return { memory: new Set(parts.map((mapping) => mapping[3])), reservations: new Set(in_ranges(numbers)),
        is_whole: offset == null };
    }

    // The steps in which something happened to what lies at an address.
    function steps_at(address) {
      const found = new Set();
      reservations.forEach(([, , base, size, born, died], number) => {
        const offset = address - Number(base);
        if (offset < 0 || offset >= size) return;
        found.add(born).add(died);
        for (const [, from, length, , born, died, granted] of mapped_in[number])
          if (offset >= from && offset < from + length)
            for (const step of [born, died, ...granted.map(([step]) => step)]) found.add(step);
      });
      return found;
    }

    // A test of a step and its number, for words that are sought.
    function fits_words(text) {
      const words = text.trim().toLowerCase();
      if (!words) return () => true;
      if (/^#\d+$/.test(words)) {
        const its = new Set((memory[words.slice(1) - 1]?.[3] ?? []).map(([number]) => number));
        return (_, number) => its.has(number);
      }
      const said = ({ call, brief, words, place: [file, line, name], led_there, stack }) => [call, brief, words, name,
        `${file}:${line}`, ...led_there, ...stacks[stack].flatMap((frame) => frames_of_code[frame])].join(" ");
      const has_words = (step) => (step.text ??= said(step).toLowerCase()).includes(words);
      if (!/^0x[\da-f]{4,}$/.test(words)) return has_words;
      const its = steps_at(Number(words));
      return (step, number) => its.has(number) || has_words(step);
    }
    return { mapped_in, now_mapped, is_there, meant, fits_words };
  }

  // All reservations of a step, to scale: for each process a tape from address to address, and a table.
  const svg = "http://www.w3.org/2000/svg";
  function shape(parent, x, y, width, kind, attributes = {}) {
    const rect = document.createElementNS(svg, "rect");
    for (const [name, value] of Object.entries({ class: kind, x, y, width, height: 22, ...attributes }))
      rect.setAttribute(name, value);
    if (attributes["data-about"]) rect.append(document.createElementNS(svg, "title"));
    if (rect.firstChild) rect.firstChild.textContent = attributes["data-about"];
    parent.append(rect);
    return rect;
  }
  function map_of(data, lives, at, width) {
    const { reservations, memory } = data;
    const gpu_of = ([, , , nth]) => memory[nth - 1]?.[1] ?? -1;
    const total = (mappings) => mappings.reduce((sum, [, , length]) => sum + length, 0);

    // What is mapped in a reservation that is drawn there; neighbours closer than a pixel are one.
    function fill(picture, number, x, y, wide) {
      const size = reservations[number][3], last = {};
      for (const mapping of lives.now_mapped(number, at)) {
        const [, offset, length] = mapping, gpu = gpu_of(mapping), before = last[gpu];
        const from = x + offset / size * wide, to = from + Math.max(1, length / size * wide);
        if (before && (from <= before.to || to - before.from < 2)) {
          before.to = Math.max(to, before.to);
          before.rect.setAttribute("width", before.to - before.from);
        } else {
          const kind = gpu >= 0 ? `vmm-in vmm-gpu${gpu % 8}` : "vmm-in vmm-elsewhere";
          last[gpu] = { from, to, rect: shape(picture, from, y, to - from, kind) };
        }
      }
    }
    function tape(its, words) {
      const all = its.reduce((sum, number) => sum + reservations[number][3], 0);
      const room = Math.min(6, its.length) * width - 4 * its.length, pixel = all / (room > 200 ? room : width);
      const picture = document.createElementNS(svg, "svg");
      let [x, y] = [0, 2];
      for (const number of its) {
        const [, name, base, size] = reservations[number], wide = Math.min(width, Math.max(3, size / pixel));
        if (x + wide > width + 1) [x, y] = [0, y + 30];
        const mapped = size_text(total(lives.now_mapped(number, at)));
        const about = `Reservation ${name}: ${size_text(size)} at ${base}, ${mapped} mapped.`;
        shape(picture, x, y, wide, "vmm-box", { "data-pin": `r${number}`, "data-about": about });
        fill(picture, number, x, y, wide);
        x += wide + 2;
      }
      const count = `${its.length} reservation${its.length > 1 ? "s" : ""}`;
      const scale = `100 pixels are ${size_text(Math.round(100 * pixel))}`;
      const title = `${words}${count}, ${size_text(all)} of addresses; ${scale}`;
      const attributes = { viewBox: `0 0 ${width} ${y + 26}`, class: "vmm-picture", role: "img", "aria-label": title };
      for (const [name, value] of Object.entries(attributes)) picture.setAttribute(name, value);
      return [make("h3", {}, title), picture, table(its)];
    }

    // Equal ones are one row, which opens.
    function words_of(number) {
      const inside = lives.now_mapped(number, at), rights = new Set();
      const gpus = [...new Set(inside.map(gpu_of))].filter((gpu) => gpu >= 0).sort();
      for (const [, , , , , , granted] of inside) {
        const now = new Map();  // by GPU
        for (const [step, text] of granted) if (step <= at) now.set(text.split(" ", 2).join(" "), text);
        for (const text of now.values()) rights.add(text);
      }
      const mapped = inside.length ? `${size_text(total(inside))} mapped` : "nothing mapped";
      const of = gpus.length ? ` of GPU ${gpus.join(", ")}` : "";
      return [`${size_text(reservations[number][3])} reserved, ${mapped}${of}`, ...rights].join("; ");
    }
    function button(number) {
      const numbers = lives.now_mapped(number, at).slice(0, 3).map(([, , , nth]) => ` #${nth}`).join("");
      const attributes = { type: "button", "data-pin": `r${number}`, "data-about": reservations[number][1] };
      return make("button", attributes, reservations[number][1] + numbers);
    }
    function table(its) {
      const groups = new Map();
      for (const number of its) {
        const words = words_of(number);
        if (!groups.has(words)) groups.set(words, []);
        groups.get(words).push(number);
      }
      const folds = [...groups].map(([words, numbers]) => {
        const fold = make("details", {}, make("summary", {}, `${numbers.length} × ${words}`));
        fold.open = groups.size < 3 && numbers.length < 9;
        fold.append(...numbers.slice(0, most).map(button));
        if (numbers.length > most) fold.append(`… and ${numbers.length - most} more`);
        return fold;
      });
      return make("div", { class: "vmm-groups" }, ...folds);
    }
    const processes = [...new Set(reservations.map(([process]) => process))].sort((one, other) => one - other);
    return processes.flatMap((process) => {
      const words = data.processes > 1 ? `process ${process + 1}: ` : "";
      const its = reservations.flatMap(([whose, , , , born, died], number) =>
        whose == process && lives.is_there(at, born, died) ? [number] : []);
      its.sort((one, other) => Number(reservations[one][2]) - Number(reservations[other][2]));
      return its.length ? tape(its, words) : [make("h3", {}, `${words}nothing reserved`)];
    });
  }

  // A picture as a file, with the colours that it has in the view.
  function save_picture(view, text, name) {
    const in_svg = text.replace("<svg ", `<svg xmlns="${svg}" `);
    const picture = new DOMParser().parseFromString(in_svg, "image/svg+xml").documentElement;
    const [, , width, height] = picture.getAttribute("viewBox").split(" ");
    const computed = getComputedStyle(view), rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
      .filter(({ selectorText: its }) => its?.startsWith(".vmm-picture ")).map((rule) => rule.cssText);
    const colours = new Set([...rules.join().matchAll(/var\((--vmm-\w+)\)/g)].map(([, colour]) => colour));
    const style = document.createElementNS(svg, "style");
    const values = [...colours].map((colour) => `${colour}: ${computed.getPropertyValue(colour)}`);
    style.textContent = [`svg { ${values.join("; ")} }`, ...rules].join("\n");
    picture.prepend(style, shape(picture, 0, 0, width, "vmm-paper", { height }));
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    const file = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
    const address = URL.createObjectURL(file);
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  async function begin(view) {
    const data = await unpack(view.querySelector("script").textContent);
    if (!data.steps.length) return;
    const { steps, elements, frames, reservations, memory, lanes } = data, lives = lives_of(data);
    const key = view.dataset.key, last = steps.length, is_alone = "alone" in view.dataset;
    const panel = make("div", { class: "vmm-steps" });
    panel.innerHTML = html;
    panel.style.setProperty("--vmm-tallest", data.tallest);
    view.append(panel);
    view.classList.add("vmm-live");
    const part = (name) => panel.querySelector(`.vmm-${name}`);
    const [first, back, forward, end] = panel.querySelectorAll(".vmm-controls > button");
    const source = part("source"), scroll = part("scroll"), tip = part("tip"), life = part("life"), map = part("map");
    const search = part("filter").querySelector("input"), help = part("help"), tabs = [...part("tabs").children];
    const refused_words = part("refused-words");
    const slider = make("input", { type: "range", min: 1, max: last, "aria-label": "Step" });
    const cursor = make("div", { class: "vmm-cursor" });
    const strip = view.querySelector(".vmm-strip");
    strip.append(cursor, slider);
    strip.style.setProperty("--vmm-columns", last);
    const list = part("list"), row = 1.6 * parseFloat(getComputedStyle(document.documentElement).fontSize);
    let at = 0, shown = "", timer = 0, pinned = null, held = [];  // the step; the file that is shown; what is marked
    const has_address = location.href != "about:srcdoc";  // it has none inside another page, as in a notebook
    part("link").hidden = !has_address;
    const room = make("div");  // gives the list its height
    let listed = steps.map((_, index) => index + 1);  // the numbers of the steps in the list
    const chosen = { kind: "all", process: -1, words: "" };

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

    function picture_of(number) {
      const { elements: its, height } = frame(number);
      return `<svg class="vmm-picture" role="group" aria-label="The picture of step ${number}"
        preserveAspectRatio="xMidYMin meet" viewBox="0 0 ${data.width} ${Math.max(height, data.tallest)}">${
        its.map((index) => elements[index]).join("")}</svg>`;
    }

    function draw() {
      const ranges = [...scroll.querySelectorAll("[data-about]")], focused = ranges.indexOf(document.activeElement);
      hide();
      scroll.innerHTML = picture_of(at);
      const now = scroll.querySelectorAll("[data-about]");
      for (const range of now) {
        range.tabIndex = -1;
        range.setAttribute("role", range.dataset.pin ? "button" : "img");
        range.setAttribute("aria-label", range.dataset.about);
      }
      if (focused >= 0) (now[Math.min(focused, now.length - 1)] ?? scroll).focus({ preventScroll: true });
      if (map.hidden) mark_pinned();
      else draw_map();
    }

    // Where there is no source: the functions that led to the call.
    function list_callers(stack) {
      part("callers").replaceChildren(...stack.map((number) => {
        const [name, where] = data.frames_of_code[number];
        return make("li", { class: name ? "" : "vmm-folded" }, make("b", {}, name), ` ${where}`);
      }));
      part("callers").hidden = !stack.length;
    }

    // The line that has just run, and the one that this process runs next.
    function show_source() {
      const { place: [file, line, name], led_there, process } = steps[at - 1];
      const next = steps.slice(at, at + 2000).find((step) => step.process == process)?.place;
      const has_text = Boolean(data.sources[file]);
      if (has_text && file != shown) {
        source.replaceChildren(...data.sources[file].split("\n").map((text, index) =>
          make("div", { "data-line": index + 1 }, text)));
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
          : data.stacks[steps[at - 1].stack].length ? "There is no source. These functions led to the call:"
          : "There is no source for this call.";
      }
      source.hidden = !has_text;
      list_callers(has_text ? [] : data.stacks[steps[at - 1].stack]);
    }

    // --- The list: of it, the rows that are seen
    function draw_list() {
      const from = Math.max(0, Math.floor(list.scrollTop / row) - 3), count = Math.ceil(list.clientHeight / row) + 6;
      const rows = listed.slice(from, from + count).map((number, index) => {
        const step = steps[number - 1], { call, kind, process, brief, place: [file, line, name] } = step;
        const entry = make("div", { class: `vmm-${kind}`, id: `${key}-call-${number}`, "data-number": number,
          role: "option", "aria-selected": number == at, "aria-setsize": listed.length,
          "aria-posinset": from + index + 1 });
        entry.style.top = `${(from + index) * row}px`;
        const of = data.processes > 1 ? [make("small", {}, `P${process + 1}`), " "] : [];
        const where = file ? `${file}:${line}` : name ? `in ${name}` : "";
        entry.append(make("i", {}, mark_of(step)), make("b", {}, String(number)), " ", ...of,
          make("span", {}, call + (kind == "refused" ? " was refused" : "")), " ",
          make("span", { class: "vmm-brief" }, brief), " ", make("span", { class: "vmm-place" }, where));
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

    // --- Find
    const fits = (kind, process, has) => (step, index) =>
      is_kind[kind](step) && (process < 0 || step.process == process) && has(step, index + 1);
    const chips = [];
    function chip(words, property, value) {
      const button = make("button", { type: "button" });
      button.addEventListener("click", () =>
        choose(chosen[property] = property == "process" && chosen.process == value ? -1 : value));
      chips.push({ button, words, property, value });
      return button;
    }
    function choose() {
      const has = lives.fits_words(chosen.words);
      listed = steps.flatMap((step, index) => fits(chosen.kind, chosen.process, has)(step, index) ? [index + 1] : []);
      for (const { button, words, property, value } of chips) {
        const its = { ...chosen, [property]: value };
        button.textContent = `${words} (${steps.filter(fits(its.kind, its.process, has)).length})`;
        button.setAttribute("aria-pressed", chosen[property] == value);
      }
      list.classList.toggle("vmm-nothing", !listed.length);
      show_in_list();
      show_number();
    }

    // --- Where one is
    const nearest = (all, way) => way > 0 ? all.find((its) => its > at) : all.findLast((its) => its < at);
    const next_in = (way) => nearest(listed, way);
    function show_number() {
      const some = listed.length < last ? `, ${listed.length} listed` : "";
      part("number").textContent = `step ${at} of ${last}${some}`;
      for (const button of [first, back, forward, end]) {
        const focused = document.activeElement == button, goes_back = button == first || button == back;
        button.disabled = !next_in(goes_back ? -1 : 1);
        if (button.disabled && focused) slider.focus();  // or the keys would no longer reach the view
      }
    }
    function held_now() {
      return lanes.map(([gpu, changes]) => {
        let low = 0, high = changes.length - 1;
        while (low < high) {
          const middle = (low + high + 1) >> 1;
          if (changes[middle][0] <= at) low = middle; else high = middle - 1;
        }
        const [, mapped, idle, ordinary] = changes[low];
        const kinds = [[mapped, "mapped"], [idle, "not mapped"], [ordinary, "ordinary"]].filter(([size]) => size);
        const sizes = kinds.map(([size, words]) => `${size_text(size)} ${words}`), all = mapped + idle + ordinary;
        return { gpu, words: `GPU ${gpu}: ${sizes.join(", ") || "nothing"}`, now: `now ${size_text(all)}` };
      });
    }

    // Calls, results and names of variables as code.
    const code = /^(cu(da)?[A-Z]\w*|CU(DA)?_[A-Z_]+)$/, named = new Set(data.names);
    function with_code(text) {
      const parts = text.split(/([A-Za-z_](?:[\w[\]]|->|\.(?=\w))*)/);
      return parts.map((word, index) => {
        const is_name = named.has(word) && ["reservation", "gives", "frees", "of"].includes(parts[index - 2]);
        return index % 2 && (code.test(word) || is_name) ? make("code", {}, word) : word;
      });
    }

    function go(number, { push = false, write = true } = {}) {
      number = Math.min(Math.max(number, 1), last);
      if (number == at) return;
      if (push) write_address();  // so that the browser's Back leads to where one was
      at = number;
      const step = steps[at - 1], held = held_now();
      part("caption").replaceChildren(...with_code(step.words));
      refused_words.hidden = !step.explanation;
      refused_words.firstChild.replaceChildren(...with_code(step.cause));
      refused_words.lastChild.textContent = step.explanation;
      refused_words.classList.toggle("vmm-brief-words", step.cause == step.explanation);
      for (const { gpu, words, now } of held) {
        const label = strip.querySelector(`[data-gpu="${gpu}"] > span`);
        label.title = words;
        label.lastChild.textContent = now;
      }
      slider.value = at;
      const words = [`step ${at} of ${last}: ${step.call}`, ...held.map((its) => its.words)];
      slider.setAttribute("aria-valuetext", words.join("; "));
      cursor.style.setProperty("--vmm-at", (at - 0.5) / last);
      show_number();
      part("link").href = `#${key}=${at}`;
      draw();
      show_source();
      show_in_list();
      if (pinned) show_life();
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
    function step_of(hash) {
      const [name, value] = hash.slice(1).split("=");
      const number = Math.round(Number(value));
      return name != key ? 0 : Number.isNaN(number) || !value ? 1 : Math.min(Math.max(number, 1), last);
    }
    function follow() {
      const number = step_of(location.hash);
      if (!number) return false;
      clearTimeout(timer);
      go(number, { write: false });
      if (location.hash != `#${key}=${at}`) write_address();
      if (!is_alone) view.scrollIntoView();
      return true;
    }

    // --- What is said of a range, beside it
    function tell(range) {
      tip.textContent = range.dataset.about;
      tip.hidden = false;
      const box = range.getBoundingClientRect(), frame = tip.parentElement.getBoundingClientRect();
      const left = Math.min(box.left - frame.left, frame.width - tip.offsetWidth);
      const above = box.top - frame.top - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(0, left)}px`;
      tip.style.top = `${above >= 0 ? above : box.bottom - frame.top + 6}px`;
    }
    const hide = () => (tip.hidden = true);
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

    // --- Pins
    function pin(element) {
      const what = element?.dataset.pin;
      pinned = what && pinned?.what != what ? { what, words: element.dataset.about, ...lives.meant(what, at) } : null;
      life.hidden = !pinned;
      if (pinned) show_life();
      mark_pinned();
    }
    function mark_pinned() {
      for (const element of held) element.classList.remove("vmm-pinned");
      held = [];
      if (!pinned) return;
      for (const element of panel.querySelectorAll(".vmm-sight [data-pin]")) {
        const its = lives.meant(element.dataset.pin, at), can_hold = !its.is_whole || map.contains(element);
        const [may, what] = pinned.is_whole ? [its.is_whole, "reservations"] : [can_hold, "memory"];
        if (may && [...its[what]].some((one) => pinned[what].has(one))) held.push(element);
      }
      for (const element of held) element.classList.add("vmm-pinned");
    }
    function event_line(number, text) {
      const kind = number == at ? "vmm-here" : number > at ? "vmm-later" : "";
      const line = make("li", { class: kind }, make("a", { href: `#${key}=${number}` }, `step ${number}`), ` ${text}`);
      const { call, place: [file, row, name] } = steps[number - 1];
      line.append(make("small", {}, ` ${call}${file ? `, ${file}:${row}` : name ? `, in ${name}` : ""}`));
      return line;
    }
    function show_life() {
      const parts = [], only = (events) => events.slice(0, most).map(([number, text]) => event_line(number, text));
      if (pinned.is_whole)
        for (const number of [...pinned.reservations].slice(0, 20)) {
          const [process, name, base, size, born, died] = reservations[number];
          const of = data.processes > 1 ? ` of process ${process + 1}` : "";
          parts.push(make("h3", {}, `Reservation ${name}${of}, ${size_text(size)} at ${base}`));
          const events = lives.mapped_in[number].flatMap(([, offset, length, nth, from, to, granted]) => [
            [from, `mapped: ${size_text(length)} #${nth} at offset ${exact(offset)}`],
            ...granted.map(([step, text]) => [step, `granted: ${text}`]),
            ...(to ? [[to, `unmapped: #${nth}`]] : [])]);
          events.push([born, "reserved"], ...(died ? [[died, "freed"]] : []));
          parts.push(make("ol", {}, ...only(events.sort((one, other) => one[0] - other[0]))));
        }
      else
        for (const nth of [...pinned.memory].slice(0, 20)) {
          const [size, device, is_multicast, events] = memory[nth - 1] || [0, -1, false, []];
          const of = device >= 0 ? ` of GPU ${device}` : "";
          parts.push(make("h3", {}, `${is_multicast ? "Multicast object" : "Allocation"} #${nth}, ${
            size ? size_text(size) : "size not known"}${of}`), make("ol", {}, ...only(events)));
        }
      const count = pinned.is_whole ? pinned.reservations.size : pinned.memory.size;
      if (count > 20) parts.push(make("p", {}, `… and ${count - 20} more. Find one by its number, as #12.`));
      const close = make("button", { type: "button", "aria-label": "Unpin" }, "×");
      close.addEventListener("click", () => pin(null));
      life.replaceChildren(close, ...parts.length ? parts : [make("p", {}, pinned.words)]);
    }
    part("sight").addEventListener("click", ({ target }) => {
      const element = target.closest("[data-pin]");
      if (element) pin(element);
      else if (target.closest("[data-unfold]")) show_tab(1);
      else if (scroll.contains(target)) pin(null);
    });

    function draw_map() {
      map.replaceChildren(...map_of(data, lives, at, Math.max(300, map.clientWidth - 30)));
      mark_pinned();
    }
    function show_tab(which) {
      tabs.forEach((tab, index) => tab.setAttribute("aria-pressed", index == which));
      [part("frame").hidden, map.hidden] = [which == 1, which != 1];
      if (which) draw_map();
    }
    tabs.forEach((tab, index) => tab.addEventListener("click", () => show_tab(index)));

    const next_listed = (way) => go(next_in(way) ?? at);
    const next_kind = (kind, way) =>
      go(nearest(steps.flatMap((step, index) => is_kind[kind](step) ? [index + 1] : []), way) ?? at);
    function next_range(way) {
      const ranges = [...scroll.querySelectorAll("[data-about]")], now = ranges.indexOf(document.activeElement);
      ranges.at(now < 0 ? (way > 0 ? 0 : -1) : Math.min(Math.max(now + way, 0), ranges.length - 1))?.focus();
    }

    const does = [() => go(listed[0], { push: true }), () => next_listed(-1),
      () => next_listed(1), () => go(listed.at(-1), { push: true })];
    [first, back, forward, end].forEach((button, index) => button.addEventListener("click", does[index]));
    part("save").addEventListener("click", () => save_picture(view, picture_of(at), `step_${at}.svg`));
    part("ask").addEventListener("click", () => help.showModal());
    help.querySelector("tbody").append(...keys.map(([its, does]) =>
      make("tr", {}, make("th", { scope: "row" }, its), make("td", {}, does))));
    const letters = help.querySelector("input");
    slider.addEventListener("input", () => go(Number(slider.value)));
    search.addEventListener("input", () => choose(chosen.words = search.value));
    list.addEventListener("click", ({ target }) => {
      const entry = target.closest("[data-number]");
      if (entry) go(Number(entry.dataset.number), { push: true });
    });
    list.addEventListener("scroll", draw_list);
    view.addEventListener("click", (event) => {  // links to steps: those of a page reach what is in it too
      const number = event.target.closest?.("a[href^='#']") && step_of(event.target.closest("a").getAttribute("href"));
      if (!number || event.target.closest(".vmm-link")) return;
      event.preventDefault();
      go(number, { push: true });
    });

    // Keys: all over the page where the view is the page, else while the view has the focus.
    const by_letter = { n: () => next_kind("changes", 1), p: () => next_kind("changes", -1),
      r: () => next_kind("refused", 1), R: () => next_kind("refused", -1),
      "/": () => search.focus(), "?": () => help.showModal() };
    (is_alone ? document : view).addEventListener("keydown", (event) => {
      const { target, key: name } = event;
      if (event.altKey || event.ctrlKey || event.metaKey || help.open) return;
      if (name == "Escape") return escape(target);
      if (target == search) {
        if (name == "Enter" && listed.length) go(listed.find((its) => its >= at) ?? listed[0], { push: true });
        return;
      }
      if (target.matches?.("textarea, select, input:not([type=range])")) return;
      const upward = { ArrowUp: -1, ArrowDown: 1 }[name];
      if (upward && target == list) next_listed(upward);
      else if (upward && scroll.contains(target)) next_range(upward);
      else if ((name == "Enter" || name == " ") && target.closest?.(".vmm-scroll [data-pin]")) pin(target);
      else if (by_letter[name] && letters.checked) by_letter[name]();
      else if (target == slider || event.shiftKey) return;  // it knows these keys
      else if (name == "ArrowLeft") next_listed(-1);
      else if (name == "ArrowRight") next_listed(1);
      else if (name == "Home") go(1);
      else if (name == "End") go(last);
      else return;
      event.preventDefault();
    });
    function escape(target) {
      if (!tip.hidden) hide();
      else if (target != search) pin(null);
      else if (search.value) choose(search.value = chosen.words = "");
      else list.focus();
    }
    document.addEventListener("keydown", ({ key, target }) => key == "Escape" && !view.contains(target) && hide());

    const kinds = { all: "All", changes: "✚ changes", refused: "✖ refused", launches: "▸ launches" };
    for (const [kind, words] of Object.entries(kinds))
      if (kind == "all" || steps.some(is_kind[kind])) part("filter").append(chip(words, "kind", kind));
    if (data.processes > 1)
      for (const process of [...new Set(steps.map((step) => step.process))].sort((one, other) => one - other))
        part("filter").append(chip(`P${process + 1}`, "process", process));
    addEventListener("hashchange", follow);
    addEventListener("resize", () => (draw_list(), map.hidden || draw_map()));
    if (!follow()) go(Number(view.dataset.opens ?? 1), { write: false });
    choose();

    // What is printed begins with the step that is shown.
    view.printed = () => {
      const figure = make("figure", { class: "vmm-printed" }), { words, explanation } = steps[at - 1];
      figure.innerHTML = picture_of(at);
      figure.append(make("figcaption", {}, `Step ${at} of ${last}. ${words} ${explanation}`));
      return figure;
    };
    if (!is_alone) {  // in the book the list is folded
      const calls = make("details", { class: "vmm-calls" }, make("summary", {}, "The calls, listed"));
      part("filter").before(calls);
      calls.append(part("filter"), list);
      calls.addEventListener("toggle", show_in_list);
    }
  }

  // What shows without scripts: on paper too, after the step that is shown.
  function show_still() {
    for (const still of document.querySelectorAll(".vmm-view > noscript")) still.outerHTML = still.textContent;
    for (const view of document.querySelectorAll(".vmm-live")) {
      view.querySelector(".vmm-printed")?.remove();
      if (view.printed) view.querySelector(".vmm-still").prepend(view.printed());
    }
  }
  matchMedia("print").addEventListener("change", ({ matches }) => matches && show_still());
  addEventListener("beforeprint", show_still);

  for (const view of document.querySelectorAll(".vmm-view"))
    begin(view).catch((error) => {
      view.prepend(make("p", {}, `This browser cannot unpack the steps (${error}). A newer one can.`));
      view.classList.remove("vmm-live");
      show_still();
    });
});
