// SPDX-License-Identifier: MIT-0
// How Sphinx's search shows and orders what it finds: search.py has made an entry of each section.
const asked = new URLSearchParams(location.search).get("q") ?? "";
// Who asks for an error wants its cause first, and then the rules of the call.
const first = /error|fault|fail|refus|leak|hang|crash|illegal|invalid|permit|den(y|ied)|segv|signal|out of memory/i
  .test(asked) ? { "docs/pitfalls": 40, "docs/calls": 20 } : {};
const page_of = (name) => name.split("#")[0];

// The line with the most of the words that were asked for, escaped, from shortly before the first of them on.
function line_of(text) {
  const stem = new Stemmer();
  const words = splitQuery(asked.toLowerCase()).map((word) => stem.stemWord(word));
  const places = (line) => words.map((word) => line.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const count = (line) => places(line).length;
  const best = text.split("\n").reduce((best, line) => (count(line) > count(best) ? line : best));
  const from = Math.max(0, Math.min(...places(best), count(best) && best.length) - 60);
  const shown = document.createElement("p");
  shown.textContent = best.slice(from, from + 200).replace(from ? /^\S*\s/ : "", from ? "… " : "")
    .replace(from + 200 < best.length ? /\s\S*$/ : "", from + 200 < best.length ? " …" : "");
  shown.className = "context";
  return shown.textContent ? shown.outerHTML : "";
}

var Scorer = {
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score(result) {
    const [name, , anchor, , score] = result, [page, section] = name.split("#");
    const at = Search._index.docnames.indexOf(name);
    result[0] = page;
    result[1] = Search._index.titles[at];
    result[2] = anchor || (section ? `#${section}` : "");
    result[3] = line_of(Search._index.texts[at]);
    const is_named_so = result[1].toLowerCase().endsWith(`› ${asked.trim().toLowerCase()}`);
    return score + (first[page] ?? 0) + (is_named_so ? 10 : 0) - (section === undefined ? 100 : 0);
  },
};

// A page as a whole counts only where none of its sections has all of the words.
const by_terms = Search.performTermsSearch;
Search.performTermsSearch = (...terms) => {
  const found = by_terms(...terms), is_section = ([name]) => name.includes("#");
  const pages = new Set(found.filter(is_section).map(([name]) => page_of(name)));
  return found.filter((each) => is_section(each) || !pages.has(each[0]));
};
