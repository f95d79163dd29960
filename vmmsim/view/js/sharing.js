// SPDX-License-Identifier: MIT-0
// Who may use whose memory in a step: of GPUs, and of processes. An allocation is counted once for each pair.

// [[who, whose, how many, bytes]...] of each, the largest first; memory is its maker's.
function uses(lives, at) {
  const gpus = [], processes = [];  // [who, whose, number]
  lives.reservations.forEach(([process, , , , born, died], number) => {
    if (!is_there(at, born, died)) return;
    for (const [, , , nth, , , granted] of now_of(lives.mapped_in[number], at)) {
      const [, device, is_multicast, , steps] = lives.memory[nth - 1], last = new Map();
      if (is_multicast) continue;
      for (const [step, who, flags] of granted) if (step <= at) last.set(who, flags);
      for (const [who, flags] of last) if (flags) gpus.push([who, device, nth]);
      if (lives.steps) processes.push([process, lives.steps[steps[0] - 1].process, nth]);
    }
  });
  return [gpus, processes].map((all) => grouped(all, ([who, whose]) => `${who} ${whose}`).map(([, its]) => {
    const [[who, whose]] = its, numbers = [...new Set(its.map(([, , nth]) => nth))];
    return [who, whose, numbers.length, sum(numbers.map((nth) => lives.memory[nth - 1][0]))];
  }).sort((one, other) => other[3] - one[3]));
}
const nouns = [["GPU", (nth) => `GPU ${nth}`], ["process", (nth, lives, at) => lives.process(nth, at)]];

// What crosses, in a line each: GPU 0 may use 36 MiB of GPU 1.
function crossings(lives, at) {
  return uses(lives, at).flatMap((all, kind) => {
    const [noun, name] = nouns[kind], others = all.filter(([who, whose]) => who != whose && (kind || whose >= 0));
    const words = others.slice(0, 3).map(([who, whose, , bytes]) =>
      `${name(who, lives, at)} may use ${size_text(bytes)} of ${name(whose, lives, at)}`);
    const more = others.length > 3 ? ` and ${others.length - 3} more` : "";
    return others.length ? [`Across ${noun}${kind ? "es" : "s"}: ${words.join(", ")}${more}`] : [];
  });
}

// The same as tables, for the page.
function tables_of_uses(lives, at) {
  return uses(lives, at).flatMap((all, kind) => {
    const [noun, name] = nouns[kind], in_order = (some) => [...new Set(some)].sort((one, other) => one - other);
    const who = in_order(all.map(([one]) => one)), whose = in_order(all.map(([, one]) => one));
    if (who.length < 2 && whose.length < 2) return [];
    const called = (nth) => nth < 0 ? "elsewhere" : name(nth, lives, at);
    const cell = (row, column) => {
      const [, , count, bytes] = all.find(([one, other]) => one == row && other == column) ?? [0, 0, 0, 0];
      return make("td", { class: row == column ? "vmm-own" : "" }, count ? `${size_text(bytes)} in ${count}` : "–");
    };
    const head = make("tr", {}, make("th", { scope: "col" }, "may use"),
      ...whose.map((one) => make("th", { scope: "col" }, `memory of ${called(one)}`)));
    const rows = who.map((one) => make("tr", {}, make("th", { scope: "row" }, called(one)),
      ...whose.map((other) => cell(one, other))));
    return [make("table", { class: "vmm-uses", "aria-label": `Which ${noun} may use whose memory` },
      make("tbody", {}, head, ...rows))];
  });
}
