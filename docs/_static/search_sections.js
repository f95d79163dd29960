// SPDX-License-Identifier: MIT-0
// Finds the sections of the book for the words of this page's address, ?q=..., or those that are typed here.
// docs/extensions/search.py writes sectionsOfBook. Stemmer and stopwords are Sphinx's, in language_data.js.
(() => {
  const WEIGHTS = [8, 6, 2, 1]; // of a section's title, of what readers call it, of the titles above it, of its text
  const MOST_ROWS = 50, LENGTH = 200, BEFORE = 60; // of what is shown of a line, and of that before the first word
  const ASKED = "after another any can do does from has have how i me my only so some still than too what when where " +
    "which while who why you your";
  const silent = new Set([...stopwords, ...ASKED.split(" ")]);

  const WORD = /[a-z0-9_]+/gi, stemmer = new Stemmer(), stems = new Map();
  function stem(text) {
    const word = text.toLowerCase();
    if (!stems.has(word)) stems.set(word, /[\d_]/.test(word) ? word : stemmer.stemWord(word));
    return stems.get(word);
  }
  const stemsOf = (text) => (text.match(WORD) ?? []).map(stem);
  const phrase = (text) => stemsOf(text).join(" ");

  // What is part of a name counts half, as unmap in cuMemUnmap. A number is no part of another.
  const isPart = (word, name) => word.length > 2 && !/^\d+$/.test(word) && name.includes(word);
  const likeness = (word, names) => (names.has(word) ? 1 : [...names].some((name) => isPart(word, name)) ? 0.5 : 0);
  const isFound = (text, words) => words.some((word) => likeness(word, new Set([stem(text)])));

  for (const section of sectionsOfBook) {
    const { title, words, above, lines } = section;
    section.phrases = words.map(phrase);
    section.stemsOfLines = lines.map(([text]) => new Set(stemsOf(text)));
    section.stems = [title, words.join(" "), above.join(" ")].map((text) => new Set(stemsOf(text)));
    section.stems.push(new Set(section.stemsOfLines.flatMap((each) => [...each])));
  }

  function wordsOf(query) {
    const typed = query.match(WORD) ?? [], loud = typed.filter((word) => !silent.has(word.toLowerCase()));
    return loud.length ? loud : typed;
  }

  // First what has the query as one of its search words or as its title. Then by where the words stand, how rare they
  // are, how many are in one line, and how much of the query is there at all.
  function find(query) {
    const words = [...new Set(wordsOf(query).map(stem))], whole = phrase(query);
    const rows = sectionsOfBook.map((section) => ({
      section,
      counts: words.map((word) => section.stems.reduce((sum, has, at) => sum + WEIGHTS[at] * likeness(word, has), 0)),
    }));
    const found = rows.filter(({ counts }) => counts.some(Boolean));
    const having = (at) => rows.filter(({ counts }) => counts[at]).length;
    const worth = words.map((_, at) => Math.log(1 + rows.length / (1 + having(at))));
    const sum = (value) => words.reduce((total, word, at) => total + worth[at] * value(word, at), 0);
    for (const row of found) {
      const ofLines = row.section.stemsOfLines.map((has) => sum((word) => likeness(word, has)));
      const best = Math.max(0, ...ofLines), share = sum((_, at) => (row.counts[at] ? 1 : 0)) / sum(() => 1);
      row.line = row.section.lines[ofLines.indexOf(best)] ?? [""];
      row.whole = row.section.phrases.includes(whole) ? 2 : phrase(row.section.title) == whole ? 1 : 0;
      row.score = share ** 2 * (best + sum((_, at) => row.counts[at]));
    }
    found.sort((one, other) => other.whole - one.whole || other.score - one.score);
    return { found, words };
  }

  function element(name, className, ...children) {
    const made = Object.assign(document.createElement(name), { className });
    made.append(...children);
    return made;
  }

  // What surrounds the first of the words in a line that is too long, and the words marked.
  function shown(text, words) {
    const first = text.match(WORD)?.find((each) => isFound(each, words));
    const from = first ? text.indexOf(first) - BEFORE : 0;
    const begin = Math.min(from, text.length - LENGTH) > 0 ? text.indexOf(" ", from) + 1 : 0;
    const end = begin + LENGTH < text.length ? text.lastIndexOf(" ", begin + LENGTH) : text.length;
    const cut = `${begin ? "… " : ""}${text.slice(begin, end)}${end < text.length ? " …" : ""}`;
    return cut.split(/([a-z0-9_]+)/i).map((each) => (isFound(each, words) ? element("mark", "", each) : each));
  }

  // On the page to which the link leads Sphinx marks some of the words.
  function row({ section, line: [text, anchor] }, words, marks) {
    const [page, name] = section.address.split("#"), behind = anchor ?? name;
    const link = element("a", "", ...shown(section.title, words));
    link.href = `${page}?highlight=${encodeURIComponent(marks.join(" "))}${behind ? "#" + behind : ""}`;
    const where = element("p", "search-where", section.above.join(" › "));
    const line = element("p", "search-line", ...shown(text, words));
    return element("li", "", link, ...[where, line].filter((each) => each.textContent));
  }

  function show(query) {
    const { found, words } = find(query), marks = wordsOf(query).filter((word) => /\D{3}/.test(word));
    const rows = found.slice(0, MOST_ROWS).map((each) => row(each, words, marks));
    document.querySelector("ol.search").replaceChildren(...rows);
    const more = found.length > MOST_ROWS ? `; these are the first ${MOST_ROWS}` : "";
    document.querySelector(".search-summary").textContent = !words.length
      ? "Type a word, a call, or an error's name, number or text."
      : found.length
        ? `${found.length} section${found.length == 1 ? "" : "s"} found${more}.`
        : "Your search did not match any section. Try fewer words, or the number of an error.";
  }

  const box = document.querySelector(".search-box input");
  box.value = new URLSearchParams(location.search).get("q") ?? "";
  box.addEventListener("input", () => show(box.value));
  show(box.value);
})();
