// SPDX-License-Identifier: MIT-0
// Boxes in which a reader changes calls, and sees each answered: docs/extensions/try_it.py makes them of listings.
// The calls are those of C in short form; what they are answered comes from the simulator's memory (vmmsim/web).
{
  // What a call is given: "&" the name of what it answers with. KINDS has which kinds of value the others may be.
  const CALLS = {
    cuMemAddressReserve: ["&ptr", "size", "alignment", "addr", "flags"],
    cuMemAddressFree: ["ptr", "size"],
    cuMemCreate: ["&handle", "size", "place", "flags"],
    cuMemRelease: ["handle"],
    cuMemMap: ["ptr", "size", "offset", "handle", "flags"],
    cuMemUnmap: ["ptr", "size"],
    cuMemSetAccess: ["ptr", "size", "place", "access"],
    cuMemGetAccess: ["&access", "place", "ptr"],
    cuMemRetainAllocationHandle: ["&handle", "ptr"],
    cuMemGetAllocationGranularity: ["&granularity", "place", "option"],
    read: ["gpu", "ptr", "size"],
    write: ["gpu", "ptr", "size"],
  };
  // A number is also what C takes for a right, an option, a handle and an address.
  const KINDS = {
    size: ["number"], alignment: ["number"], offset: ["number"], flags: ["number"],
    gpu: ["GPU"], place: ["GPU", "host"],
    access: ["right", "number"], option: ["option", "number"], handle: ["handle", "number"],
    ptr: ["address", "number"], addr: ["address", "number"],
  };
  const AS = {
    number: "a number, as 4 MiB", GPU: "a GPU, as gpu(0)", right: "a right, as READ", option: "an option, as MINIMUM",
    handle: "a handle, as cuMemCreate answers with", address: "an address, as cuMemAddressReserve answers with",
  };
  const ANSWERED = { ptr: "address", handle: "handle", access: "right", granularity: "number" };
  const NTH = ["first", "second", "third", "fourth", "fifth"];
  const value = (kind, bits) => ({ kind, bits });
  const WORDS = {
    host: value("host", (1n << 64n) - 1n), NONE: value("right", 0n), READ: value("right", 1n),
    READWRITE: value("right", 3n), MINIMUM: value("option", 0n), RECOMMENDED: value("option", 1n),
  };
  const LONG = /^CU_MEM_(?:ACCESS_FLAGS_PROT|ALLOC_GRANULARITY)_(?=[A-Z]+$)/;  // what C has before some of them
  const UNITS = { KiB: 1n << 10n, MiB: 1n << 20n, GiB: 1n << 30n, TiB: 1n << 40n };
  const ERRORS = {
    0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 101: "CUDA_ERROR_INVALID_DEVICE",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 800: "CUDA_ERROR_NOT_PERMITTED", 801: "CUDA_ERROR_NOT_SUPPORTED",
    999: "CUDA_ERROR_UNKNOWN",
  };
  const RIGHTS = { 0: "no access", 1: "read", 3: "read-write" };
  const FAULT = 700;
  const GPUS = 2;

  class Mistake extends Error {}

  // --- The text ------------------------------------------------------------------------------------------------------

  // How many letters one changes, adds or takes to make one word of another.
  const distance = (a, b) => {
    let row = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; ++i) {
      const next = [i];
      for (let j = 1; j <= b.length; ++j)
        next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1])));
      row = next;
    }
    return row[b.length];
  };
  // The word that is likely meant, if one is.
  const nearest = (word, words) => {
    const far = (each) => distance(word.toLowerCase(), each.toLowerCase());
    const best = [...words].sort((a, b) => far(a) - far(b))[0];
    return best && far(best) <= Math.min(3, Math.ceil(word.length / 5)) ? best : null;
  };

  const unitAfter = (token = "") => {
    if (UNITS[token]) return UNITS[token];
    if (!/^(.i?b|[kmgtp])$/i.test(token)) return null;
    const all = Object.keys(UNITS), meant = all.find((each) => each[0] === token[0].toUpperCase());
    throw new Mistake(`“${token}” is no unit here: write ${meant ?? all.join(", ")}`);
  };
  const gpuOf = ({ kind, bits }) => {
    if (kind !== "number") throw new Mistake("gpu() has a number in it, as gpu(0)");
    if (bits < 0n || bits >> 31n) throw new Mistake(`there is no gpu(${bits}): this box has gpu(0) and gpu(1)`);
    return value("GPU", bits);
  };
  // An address may be moved by a number, and two give their distance; all else is counted with numbers only.
  const counted = (sign, a, b) => {
    const kinds = `${a.kind} ${sign} ${b.kind}`;
    const kind = { "address + number": "address", "number + address": "address", "address - number": "address",
      "address - address": "number", [`number ${sign} number`]: "number" }[kinds];
    if (!kind) throw new Mistake(`one can't count ${kinds}: a number is as 4 MiB`);
    if (sign === "<<" && (b.bits < 0n || b.bits > 63n)) throw new Mistake("<< takes 0 to 63");
    const [x, y] = [a.bits, b.bits];
    return value(kind, { "+": () => x + y, "-": () => x - y, "*": () => x * y, "<<": () => x << y }[sign]());
  };

  // Numbers with or without a unit, gpu(N), words and variables, with C's order of *, + and <<, as 2 * 3 MiB + va.
  const valueOf = (text, variables) => {
    const tokens = text.match(/0x[0-9a-f]+|\d+(?:\.\d+)?|[A-Za-z_]\w*|<<|[-+*()]|\S/gi) ?? [];
    let at = 0;
    const expect = (what) => {
      if (tokens[at++] !== what) throw new Mistake(`there is no ${what} in “${text.trim()}” where one is wanted`);
    };
    const bracketed = () => {
      const inside = shifted();
      expect(")");
      return inside;
    };
    const single = () => {
      const token = tokens[at++]?.replace(LONG, "");
      if (token === undefined) throw new Mistake("an argument is empty");
      if (token === "(") return bracketed();
      if (token === "-") return counted("-", value("number", 0n), single());
      if (token.includes(".")) throw new Mistake(`“${token}” is no whole number: take a smaller unit, as 1536 KiB`);
      if (/^\d/.test(token)) {
        const unit = unitAfter(tokens[at]);
        at += unit ? 1 : 0;
        return value("number", BigInt(token) * (unit ?? 1n));
      }
      if (token === "gpu") {
        expect("(");
        return gpuOf(bracketed());
      }
      if (variables.has(token)) return variables.get(token);
      if (Object.hasOwn(WORDS, token)) return WORDS[token];
      const meant = nearest(token, ["gpu", ...Object.keys(WORDS), ...variables.keys()]);
      const hint = meant ? `: is ${meant === "gpu" ? "gpu(0)" : meant} meant?` : "";
      throw new Mistake(`nothing above is called “${token}”${hint}`);
    };
    const chain = (signs, next) => () => {
      let all = next();
      while (signs.includes(tokens[at])) all = counted(tokens[at++], all, next());
      return all;
    };
    const shifted = chain(["<<"], chain(["+", "-"], chain(["*"], single)));
    const all = shifted();
    if (at < tokens.length) throw new Mistake(`“${tokens[at]}” is not understood`);
    if (all.bits < 0n) throw new Mistake(`“${text.trim()}” is negative, and CUDA takes no such number here`);
    if (all.bits >> 64n) throw new Mistake(`“${text.trim()}” is too large: a number here has 64 bits at most`);
    return all;
  };

  const argumentsOf = (text) => {
    const parts = [""];
    let depth = 0;
    for (const letter of text) {
      depth += (letter === "(") - (letter === ")");
      if (letter === "," && !depth) parts.push("");
      else parts[parts.length - 1] += letter;
    }
    return text.trim() ? parts : [];
  };

  const wordsOf = (what, [kind]) => {
    if (what === "place") return "a place, as gpu(0)";
    return what === "gpu" ? `${AS.GPU}, whose kernel it is` : AS[kind];
  };

  // What a line asks for: its call, the numbers that it is given, and the name of what it answers with.
  const asked = (line, variables) => {
    const [, name, given] = line.match(/^(\w+)\s*\((.*)\)\s*;?$/) ?? [];
    if (!name) throw new Mistake("a line is one call, with both its parentheses, as cuMemRelease(handle)");
    const wanted = Object.hasOwn(CALLS, name) ? CALLS[name] : null;
    if (!wanted) {
      const meant = nearest(name, Object.keys(CALLS));
      const hint = meant ? `: is ${meant} meant?` : `; there are ${Object.keys(CALLS).join(", ")}`;
      throw new Mistake(`there is no ${name} here${hint}`);
    }
    const parts = argumentsOf(given);
    const form = `${name}(${wanted.join(", ")})`;
    if (parts.length !== wanted.length) throw new Mistake(`${name} has ${wanted.length} arguments here: ${form}`);
    const answers = wanted.findIndex((each) => each.startsWith("&"));
    const to = answers < 0 ? null : parts[answers].match(/^\s*&\s*([A-Za-z_]\w*)\s*$/)?.[1];
    if (to === undefined) throw new Mistake(`the answer needs a name, with & before it: ${form}`);
    const numbers = parts.flatMap((part, i) => {
      if (i === answers) return [];
      const { kind, bits } = valueOf(part, variables), kinds = KINDS[wanted[i]];
      if (!kinds.includes(kind)) throw new Mistake(`the ${NTH[i]} is ${wordsOf(wanted[i], kinds)}: ${form}`);
      return bits;
    });
    return { name, numbers, to, kind: ANSWERED[wanted[answers]?.slice(1)] };
  };

  // --- The run -------------------------------------------------------------------------------------------------------

  const sizeText = (bytes) => {
    for (const [name, unit] of Object.entries(UNITS).reverse())
      if (bytes >= Number(unit)) return `${+(bytes / Number(unit)).toFixed(2)} ${name}`;
    return `${bytes} bytes`;
  };
  const answerText = ({ name, to, kind }, answer) => {
    if (answer.error) return ERRORS[answer.error] ?? `error ${answer.error}`;
    if (name === "cuMemGetAccess") return `CUDA_SUCCESS: ${RIGHTS[Number(answer.value)]}`;
    if (name === "cuMemGetAllocationGranularity") return `CUDA_SUCCESS: ${sizeText(Number(answer.value))}`;
    if (name === "read" || name === "write") return "no fault";
    if (kind === "handle") return `CUDA_SUCCESS: ${to} is a handle`;
    return to ? `CUDA_SUCCESS: ${to} is ${answer.value}` : "CUDA_SUCCESS";
  };

  // What is said of a success that surprises.
  const remarkOn = ({ name, numbers }, before, hasFaulted) => {
    if (hasFaulted) return "a kernel has faulted: VMM's calls still succeed, and no kernel can use what they map";
    const [address, size] = numbers.map(Number);
    const isThere = (mapping) => mapping.address >= address && mapping.address < address + size;
    if (name === "cuMemUnmap" && !before.mappings.some(isThere))
      return "nothing was mapped there; the driver doesn't say so";
    return "";
  };

  // Each line with its answer and with what there is after it.
  const runOf = async (text) => {
    const machine = await vmmsimMachine();
    const why = machine.ccall("begin", "string", ["number"], [GPUS]);
    if (why) throw new Error(why);
    const variables = new Map(), names = new Map(), rows = [];
    let hasFaulted = false;
    let state = { reservations: [], mappings: [], handles: [], memories: [] };
    for (const [i, whole] of text.split("\n").entries()) {
      const line = whole.replace(/\/\/.*/, "").trim();
      if (!line) continue;
      const row = { line, number: i + 1, is_bad: false, why: "", before: state };
      rows.push(row);
      try {
        const call = asked(line, variables);
        const before = state;
        state = JSON.parse(machine.ccall("call", "string", ["string"], [[call.name, ...call.numbers].join(" ")]));
        Object.assign(row, { answer: answerText(call, state), is_bad: state.error !== 0, why: state.why });
        if (!state.error) row.remark = remarkOn(call, before, hasFaulted);
        hasFaulted ||= state.error === FAULT;
        if (call.to && !state.error) {
          for (const [value, name] of names) if (name === call.to) names.delete(value);
          variables.set(call.to, value(call.kind, BigInt(state.value)));
          names.set(state.value, call.to);
        }
      } catch (mistake) {
        if (!(mistake instanceof Mistake)) throw mistake;
        Object.assign(row, { answer: "not a call", is_bad: true, why: mistake.message });
      }
      row.state = { ...state, names: new Map(names) };
    }
    return rows;
  };

  // --- The picture ---------------------------------------------------------------------------------------------------

  // What was there before a line and what is there after it, as lives of two steps: vmmsim/view/js draws what changed.
  const BEFORE = 1, NOW = 2;
  const life = (was, is) => ({ born: was ? BEFORE : NOW, died: is ? 0 : NOW });
  const both = (was, is, keyOf) => {
    const found = new Map();
    for (const each of was) found.set(keyOf(each), { was: each });
    for (const each of is) found.set(keyOf(each), { ...found.get(keyOf(each)), is: each });
    return [...found.values()].map((each) => ({ ...each, latest: each.is ?? each.was }));
  };

  const livesOf = (was, is) => {
    const devices = [...Array(GPUS).keys()], data = { devices, names_of_processes: [""], reservations: [], mappings: [],
      memory: [], handles: [], bindings: [], blocks: [], peers: [] };
    for (const { was: old, is: now, latest: { memory: nth, size, device } }
      of both(was.memories, is.memories, ({ memory }) => memory)) {
      const steps = !old ? [NOW] : now ? [BEFORE] : [BEFORE, NOW];
      data.memory[nth] = { size, device, is_multicast: 0, events: [], steps, rare: {} };
    }
    data.memory = Array.from(data.memory, (each) => each ?? 0);
    for (const { was: old, is: now, latest: { handle, memory } }
      of both(was.handles, is.handles, (record) => record.handle)) {
      const had = old?.references ?? 0, has = now?.references ?? 0;
      const counts = [{ step: BEFORE, count: had }, { step: NOW, count: has }];
      if (had || has)
        data.handles.push({ process: 0, memory: memory + 1, ...life(had, has), counts, name: is.names.get(handle) });
    }
    const mappings = both(was.mappings, is.mappings, ({ address, memory }) => `${address} ${memory}`);
    for (const { was: old, is: now, latest: { address: from, size } }
      of both(was.reservations, is.reservations, ({ address }) => address)) {
      const base = `0x${from.toString(16)}`, reservation = data.reservations.length;
      data.reservations.push({ process: 0, name: is.names.get(base) ?? base, base, size, ...life(old, now),
        is_guessed: 0 });
      for (const { was: before, is: after, latest: mapping } of mappings) {
        const begin = Math.max(mapping.address, from), end = Math.min(mapping.address + mapping.size, from + size);
        if (begin >= end) continue;  // one may go on in the next reservation
        const granted = mapping.access.flatMap((_, device) => [
          { step: BEFORE, device, flags: before?.access[device] ?? 0 },
          { step: NOW, device, flags: (after ?? before).access[device] }]);
        data.mappings.push({ reservation, offset: begin - from, size: end - begin, memory: mapping.memory + 1,
          ...life(before, after), granted });
      }
    }
    return data;
  };

  const pictureOf = (was, is, title, width) => {
    const { elements, height, ...drawn } = drawOfViews(livesOf(was, is), { from: BEFORE, to: NOW, title, width });
    return `<svg class="vmm-picture" viewBox="0 0 ${drawn.width} ${height}" style="--natural-width: ${drawn.width}px"
      role="img" aria-label="The addresses, and the memory behind them">${elements.join("")}</svg>`;
  };

  // --- The link to a box ---------------------------------------------------------------------------------------------

  // Its fragment is the section of the box, and what was typed, as short as it can be read: a slash ends a line, + is
  // a blank, and behind a comma there is one.
  const CLEAR = { "%2C%20": ",", "%20": "+", "%24": "$", "%26": "&", "%3A": ":", "%3B": ";", "%3D": "=" };
  const codeOf = (text) => text.split("\n").map((line) =>
    encodeURIComponent(line).replace(/%2C%20|%(?:20|24|26|3A|3B|3D)/g, (code) => CLEAR[code])).join("/");
  const textOf = (code) => code.split("/").map((line) =>
    decodeURIComponent(line.replaceAll(",", ", ").replaceAll("+", " "))).join("\n");
  const sectionOf = (listing) => listing.closest("section").id;

  // The box that the address names, and what is to be in it.
  const linked = (boxes) => {
    const [, section, code] = location.hash.match(/^#([^=]+)=(.+)$/) ?? [];
    const listing = boxes.find((each) => sectionOf(each) === section);
    try {
      return listing ? { listing, text: textOf(code) } : {};
    } catch {  // the link was cut off
      return {};
    }
  };
  const setAddress = (listing, text, first) => {
    try {
      history.replaceState(history.state, "", `#${sectionOf(listing)}${text === first ? "" : `=${codeOf(text)}`}`);
    } catch {
      // Safari takes a hundred in half a minute; the next one comes soon.
    }
  };

  // --- The box -------------------------------------------------------------------------------------------------------

  const element = (name, attributes, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };

  // Returns when it will be answered, and what puts another text into it.
  const makeBox = (listing) => {
    const first = listing.querySelector("pre").textContent.trimEnd();
    const editor = element("textarea", { value: first, spellcheck: false, ariaLabel: "Calls, one a line" });
    const answers = element("ol", { className: "try-it-answers" });
    const picture = element("div", { className: "try-it-picture vmm-scroll" });
    const reset = element("button", { type: "button", hidden: true });
    const copy = element("button", { type: "button", textContent: "Copy link" });
    const status = element("span", { role: "status" });
    let latest = 0, clicked = null, edited = first;

    const show = (rows, chosen) => {
      answers.querySelectorAll("button").forEach((each, i) => (each.ariaPressed = i === chosen));
      const row = rows[chosen];
      picture.replaceChildren();
      if (!row) return;
      const now = `After line ${row.number}${row.is_bad ? ", which failed" : ""}`;
      picture.innerHTML = pictureOf(row.before, row.state, now, Math.max(340, Math.min(600, picture.clientWidth)));
    };
    const run = async () => {
      delete listing.dataset.answered;
      const mine = ++latest;
      await new Promise((done) => setTimeout(done, 100));  // while somebody types
      if (mine !== latest) return;
      const rows = await runOf(editor.value);
      if (mine !== latest) return;
      editor.rows = editor.value.split("\n").length;
      const is_first = editor.value === first;
      if (!is_first) edited = editor.value;
      reset.hidden = edited === first;
      reset.textContent = is_first ? "Yours again" : "As it was";
      answers.replaceChildren(
        ...rows.map((row, i) => {
          const line = element("button", { type: "button", onclick: () => show(rows, (clicked = i)) },
            element("code", { textContent: row.line }),
            element("span", { className: row.is_bad ? "try-it-bad" : "try-it-good", textContent: row.answer }));
          const why = row.why ? [element("p", { textContent: row.why })] : [];
          if (row.remark) why.push(element("p", { className: "try-it-remark", textContent: row.remark }));
          return element("li", { value: row.number }, line, ...why);
        }),
      );
      show(rows, clicked !== null && clicked < rows.length ? clicked : rows.length - 1);
      listing.dataset.answered = editor.value;  // nobody need wait longer
    };
    const fill = (text) => {
      editor.value = text;
      clicked = null;
      return run();
    };
    const runMine = async () => {
      status.textContent = "";
      const mine = editor.value;
      await run();
      if (mine === editor.value) setAddress(listing, mine, first);
    };
    editor.addEventListener("input", () => {
      clicked = null;  // what is typed is looked at
      runMine();
    });
    reset.addEventListener("click", () => {
      editor.value = editor.value === first ? edited : first;
      runMine();
    });
    copy.addEventListener("click", async () => {
      setAddress(listing, editor.value, first);
      const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
      status.textContent = copied ? "The link is copied" : "The link is in the address bar";
    });
    const is_focused = listing.contains(document.activeElement);
    listing.replaceChildren(editor, element("div", { className: "try-it-bar" }, reset, copy, status), answers, picture);
    if (is_focused) editor.focus();
    listing.classList.add("is-ready");
    return { fill, answered: run() };
  };

  // The machine is fetched, as a script so that it is also from file://, when a reader comes near the first box, or to
  // one by a link.
  document.addEventListener("DOMContentLoaded", () => {
    const boxes = [...document.querySelectorAll(".try-it")], made = new Map();
    const follow = async () => {
      const { listing, text } = linked(boxes);
      if (!listing) return;
      const filled = made.get(listing)?.fill(text), all = [...made.values()].map(({ answered }) => answered);
      await Promise.all([filled, ...all]);  // what is above the box has its height then
      listing.scrollIntoView();
    };
    const makeAll = () => {
      for (const box of boxes) made.set(box, makeBox(box));
      follow();
    };
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      watcher.disconnect();
      document.head.append(element("script", { src: machineOfBoxes, onload: makeAll }));
    }, { rootMargin: "400px" });
    for (const box of boxes) watcher.observe(box);
    follow();
    addEventListener("hashchange", follow);
  });
}
