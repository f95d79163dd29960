// SPDX-License-Identifier: MIT-0
// What the other files use: sizes, elements, what is packed.
const units = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
const most = 400;  // rows, or events, that are put into the page at once

function size_text(size) {  // as sizes.py has it
  for (const [unit, bytes] of units)
    if (size >= bytes)
      return `${+(size / bytes).toFixed(unit == "TiB" || (unit == "GiB" && size < 100 * bytes) ? 2 : 1)} ${unit}`;
  return `${size} B`;
}
function exact(size) {
  for (const [unit, bytes] of units) if (size && size % bytes == 0) return `${size / bytes} ${unit}`;
  return `${size} B`;
}
// However a size is written in small letters, 1024 mib, 1 gib or 1 gb, it becomes the same word.
const with_sizes = (text) => text.replace(/(?<![\w,.])([\d,.]+)\s*(?:([kmgt])i?b?|b)\b/g, (_, number, unit) => {
  const [, bytes] = units.find(([name]) => name[0].toLowerCase() == unit) ?? ["B", 1];
  return `=${size_text(number.replaceAll(",", "") * bytes).replace(" ", "")}`.toLowerCase();
});
// Where in an ascending list the first is that is not less.
function first_from(all, least) {
  let [from, to] = [0, all.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (all[middle] < least) from = middle + 1;
    else to = middle;
  }
  return from;
}
const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

// An element with these texts and elements in it.
function make(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}
function make_button(text, does, attributes = {}) {
  const button = make("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", does);
  return button;
}
function grouped(things, key_of) {
  const groups = new Map();
  for (const thing of things) {
    const key = key_of(thing), group = groups.get(key);
    if (group) group.push(thing);
    else groups.set(key, [thing]);
  }
  return [...groups];
}
const in_ranges = (text) => text.split(",").flatMap((range) => {
  const [from, to = from] = range.split("-").map(Number);
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
});

async function unpack(letters) {
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// Who made a call, as owners.py says it: [the library's function if it was in a thread of its own, the program's line].
function parts_of_owner(owner) {
  const [own, asked] = owner.split(" in another thread, main thread last at ");
  return asked ? [own, asked] : ["", own];
}

const is_kind = { all: () => true, changes: (step) => step.kind == "changes",
  errors: (step) => step.kind == "refused" && !step.is_answered, answered: (step) => step.is_answered,
  launches: (step) => step.is_launch, captured: (step) => step.is_captured };
const mark_of = (step) => step.is_answered ? "↷" : step.kind == "refused" ? "✖" : step.kind == "changes" ? "✚"
  : step.is_launch ? "▸" : step.is_captured ? "◇" : "";
