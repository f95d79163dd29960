// SPDX-License-Identifier: MIT-0
// Who may use whose memory in a step: of GPUs, and of processes. An allocation is counted once for each pair.

// Of both, how many and bytes for each pair, the largest first; memory is its maker's.
function uses(lives, at) {
  const gpus = [], processes = [];
  lives.reservations.forEach(({ process, born, died }, number) => {
    if (!is_there(at, born, died)) return;
    for (const { memory: nth, granted } of now_of(lives.mapped_in[number], at)) {
      const { device, is_multicast, steps } = lives.memory[nth - 1], last = new Map();
      if (is_multicast) continue;
      for (const grant of granted) if (grant.step <= at) last.set(grant.device, grant.flags);
      for (const [who, flags] of last) if (flags) gpus.push({ who, whose: device, nth });
      if (lives.steps) processes.push({ who: process, whose: lives.steps[steps[0] - 1].process, nth });
    }
  });
  return [gpus, processes].map((all) => grouped(all, ({ who, whose }) => `${who} ${whose}`).map(([, some]) => {
    const [{ who, whose }] = some, numbers = [...new Set(some.map(({ nth }) => nth))];
    return { who, whose, count: numbers.length, bytes: sum(numbers.map((nth) => lives.memory[nth - 1].size)) };
  }).sort((a, b) => b.bytes - a.bytes));
}
const nouns = [["GPU", (nth) => `GPU ${nth}`], ["process", (nth, lives, at) => lives.process(nth, at)]];

// What crosses, in a line each: GPU 0 may use 36 MiB of GPU 1.
function crossings(lives, at) {
  return uses(lives, at).flatMap((all, kind) => {
    const [noun, name] = nouns[kind], others = all.filter(({ who, whose }) => who != whose && (kind || whose >= 0));
    const words = others.slice(0, 3).map(({ who, whose, bytes }) =>
      `${name(who, lives, at)} may use ${size_text(bytes)} of ${name(whose, lives, at)}`);
    const more = others.length > 3 ? ` and ${others.length - 3} more` : "";
    return others.length ? [`Across ${noun}${kind ? "es" : "s"}: ${words.join(", ")}${more}`] : [];
  });
}

// The same as tables, for the page.
function tables_of_uses(lives, at) {
  return uses(lives, at).flatMap((all, kind) => {
    const [noun, name] = nouns[kind], in_order = (some) => [...new Set(some)].sort((a, b) => a - b);
    const who = in_order(all.map((use) => use.who)), whose = in_order(all.map((use) => use.whose));
    if (who.length < 2 && whose.length < 2) return [];
    const called = (nth) => nth < 0 ? "elsewhere" : name(nth, lives, at);
    const cell = (row, column) => {
      const { count, bytes } = all.find((use) => use.who == row && use.whose == column) ?? { count: 0 };
      return make("td", { class: row == column ? "vmm-own" : "" }, count ? `${size_text(bytes)} in ${count}` : "–");
    };
    const head = make("tr", {}, make("th", { scope: "col" }, "may use"),
      ...whose.map((nth) => make("th", { scope: "col" }, `memory of ${called(nth)}`)));
    const rows = who.map((row) => make("tr", {}, make("th", { scope: "row" }, called(row)),
      ...whose.map((column) => cell(row, column))));
    return [make("table", { class: "vmm-uses", "aria-label": `Which ${noun} may use whose memory` },
      make("tbody", {}, head, ...rows))];
  });
}
