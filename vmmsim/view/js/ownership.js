// SPDX-License-Identifier: MIT-0
// What is held in a step, by the line of the program that made it, and by which processes, if not by its own alone; a
// row opens into the lines that called that one, the last of these into the allocations, those that are alike together.
// What a process had not given back when it ended is listed in all steps after that, so the last step has all that was
// left. At last, who may use whose memory.
const held_kinds = {
  memory: "VMM memory", torch: "PyTorch's blocks, by the line that allocated", ordinary: "By cudaMalloc and the like",
  graphs: "Memory of graphs: goes with the graph", managed: "Managed memory",
  opened: "Another process's by cudaMalloc, opened here", objects: "Multicast objects",
  handles: "Handles not released", descriptors: "Open descriptors", mappings: "Mappings", reservations: "Reservations",
  modules: "For __device__ variables: goes with the program" };
const most_lines = 40;  // of PyTorch's: a step must stay quick
const is_memory = (kind) => /^(memory|ordinary|graphs|managed)$/.test(kind);

const of_requests = "By the line that requested it of CUDA. An allocator, such as PyTorch's, may keep it or have "
  + "passed it on to other lines: that is not recorded.";

class Ownership {
  constructor(data, key, at) {
    const heading = document.querySelector("body.vmm-alone, body.vmm-two") ? "h2" : "h3";  // or in a page of the book
    Object.assign(this, { data, key, at, heading, steps: data.steps });
  }

  // Each thing with the step that made it; `ended` is the step in which its process left it.
  *things() {
    const { reservations, mappings, memory, handles, blocks, descriptors } = this.data;
    for (const [index, record] of memory.entries()) {
      if (!record) continue;
      const { size, device, is_multicast, steps } = record, nth = steps.findLastIndex((step) => step <= this.at);
      const kind = is_multicast ? "objects" : "memory", born = steps[nth - nth % 2], died = nth % 2 ? steps[nth] : 0;
      if (nth >= 0) yield* this.thing(kind, { size, device, born, died }, `#${index + 1}`, index + 1);
    }
    for (const block of blocks)
      if (block.kind != OF_MODULE) yield* this.thing(kinds_of_block[block.kind], block);
      else if (is_there(this.at, block.born, block.died)) yield* this.thing("modules", { ...block, died: 0 });
    const of_memory = ({ memory: nth, born, died }, size) =>
      ({ size, device: (memory[nth - 1] || { device: -1 }).device, born, died });
    for (const handle of handles) yield* this.thing("handles", of_memory(handle, 0), `#${handle.memory}`);
    for (const descriptor of descriptors)
      yield* this.thing("descriptors", of_memory(descriptor, 0), `${descriptor.fd}, of #${descriptor.memory}`);
    for (const mapping of mappings)
      yield* this.thing("mappings", of_memory(mapping, mapping.size), `#${mapping.memory}`);
    for (const [number, reservation] of reservations.entries())
      yield* this.thing("reservations", { ...reservation, device: null }, reservation.name, number);
  }
  *thing(kind, { size, device, born, died }, name = "", number = 0) {
    const is_left = died && died <= this.at;
    if (born > this.at || (is_left && this.steps[died - 1].call != "exit")) return;
    const until = is_left ? died - 1 : this.at;
    const all = { memory: this.data.mapped_of, reservations: this.data.mapped_in }[kind]?.[number] ?? [];
    const mapped = now_of(all, until);
    yield { kind, size, device, born, ended: is_left ? died : 0, name, is_idle: kind == "memory" && !mapped.length,
      mapped: sum(mapped.map((mapping) => mapping.size)), held_by: this.held_by(kind, number, born, until) };
  }
  // Nothing of memory that only the process holds that has made it.
  held_by(kind, number, born, at) {
    if (this.data.processes < 2 || !["memory", "objects"].includes(kind)) return "";
    const holders = this.data.holders(number, at), { process } = this.steps[born - 1];
    if (!holders.length || (holders.length == 1 && holders[0] == process)) return "";
    return `held by process${holders.length > 1 ? "es" : ""} ${holders.map((nth) => nth + 1).join(", ")}`;
  }

  parts() {
    const groups = grouped(this.things(), ({ ended }) => ended).sort(([one], [other]) => one - other);
    const blocks = this.data.torch.at(this.at);
    if (!groups.some(([ended]) => !ended) && (this.at < this.steps.length || !groups.length || blocks.length))
      groups.unshift([0, []]);
    if (blocks.length) groups[0].push(blocks);
    const uses = tables_of_uses(this.data, this.at), words = "Who may use whose memory, in how many allocations";
    const none = this.data.torch.tells(this.at) ? [] : this.words_of_torch();
    const first = groups.find(([, things]) => things.some(({ kind }) => is_memory(kind)));
    return [...groups.flatMap((group) => [make(this.heading, {}, this.title(group[0])),
      ...group == first && !this.data.torch.tells(this.at) ? [make("p", {}, of_requests)] : [],
      ...group[1].length || group[2] ? this.tables(group[1], group[2]) : [make("p", {}, "Nothing.")]]), ...none,
    ...uses.length ? [make("details", { "data-kind": "uses" }, make("summary", {}, words), ...uses)] : []];
  }
  title(ended) {
    if (!ended) return this.at == this.steps.length ? `Left at the end, step ${this.at}` : `Held in step ${this.at}`;
    const whose = this.data.processes > 1 ? `process ${this.steps[ended - 1].process + 1}` : "the program";
    return `Left by ${whose}, which ended in step ${ended}`;
  }
  // Memory first. What keeps it there, and addresses, are folded unless they are all there is.
  tables(things, blocks = []) {
    const by_kind = new Map(grouped(things, ({ kind }) => kind));
    if (blocks.length) by_kind.set("torch", blocks);
    const has_memory = [...by_kind.keys()].some(is_memory);
    return Object.keys(held_kinds).filter((kind) => by_kind.has(kind)).map((kind) => {
      const fold = this.fold(kind, by_kind.get(kind)), fill = () => fold.append(...this.table(kind, by_kind.get(kind)));
      fold.open = !has_memory || is_memory(kind) || kind == "torch";
      if (fold.open) fill();
      else fold.addEventListener("toggle", fill, { once: true });  // nobody may look into it
      return fold;
    });
  }

  // One kind: all of it, then a row for each line, GPU and call; the largest first.
  fold(kind, things) {
    const sizes = grouped(things.filter(({ device }) => device != null), of_device)
      .map(([device, some]) => [device, size_text(sum(some.map(({ size }) => size)))]).sort();
    const all = sum(things.map(({ size }) => size));
    const of = sizes.length > 1 && all ? ` (${sizes.map((words) => words.join(" ")).join(", ")})` : "";
    const unit = kind == "reservations" ? " of addresses" : "";
    const words = `${held_kinds[kind]}: ${all ? `${size_text(all)}${unit} in ` : ""}${things.length}${of}`
      + this.use_of(things);
    return make("details", { "data-kind": kind }, make("summary", {}, words));
  }
  table(kind, things) {
    const key_of = (thing) => thing.key ?? [of_device(thing), this.owner(thing), this.call(thing),
      this.library(thing), thing.held_by].join("\n");
    const rows = this.rows(things, key_of, (some) => this.row(some, 0, this.owner(some[0])));
    if (rows.length == 1 && this.next_split(things, 0) >= 0) rows.push(...this.open(rows[0], things, 0));
    const table = make("table", { "aria-label": held_kinds[kind] }, make("tbody", {}, ...rows));
    return [...this.by_library(kind, things), ...kind == "torch" ? this.words_of_torch() : [], table];
  }
  rows(things, key_of, row_of, depth = 0) {
    const groups = grouped(things, key_of).map(([, some]) => ({ some, size: sum(some.map(({ size }) => size)) }));
    groups.sort((a, b) => b.size - a.size || b.some.length - a.some.length);
    const count = !depth && things[0].stack != null ? most_lines : most, more = `… and ${groups.length - count} more`;
    const shown = groups.slice(0, count).map(({ some }) => row_of(some));
    if (groups.length > count) shown.push(make("tr", { "data-depth": depth }, make("td", { colspan: 4 }, more)));
    return shown;
  }
  // Of addresses how much is mapped there; of memory how much is mapped nowhere.
  use_of(things) {
    const mapped = sum(things.map((thing) => thing.mapped));
    if (things[0].kind == "reservations") return `, ${mapped ? size_text(mapped) : "nothing"} mapped`;
    const idle = things.filter(({ is_idle }) => is_idle), bytes = sum(idle.map(({ size }) => size));
    const unused = things[0].kind == "torch" ? "awaiting free" : "mapped nowhere";
    return !idle.length ? "" : `, ${idle.length < things.length ? `${size_text(bytes)} of it ` : ""}${unused}`;
  }
  // Of what is free in PyTorch's memory; or which steps its snapshot tells of.
  words_of_torch() {
    const { torch, pieces } = this.data;
    if (!torch.is_there) return [];
    if (!torch.tells(this.at))
      return [make("p", {}, `PyTorch's snapshot tells of steps ${torch.begin} to ${torch.end}.`)];
    const words = pieces.filter(({ device }) => device >= 0).map(({ device, changes }) => {
      const change = last_of(changes, this.at);
      return `${size_text(total(change))} on GPU ${device}, the largest piece ${size_text(change.held.largest)}`;
    });
    const fewer = torch.left_out ? ` The ${torch.left_out} smallest blocks are left out.` : "";
    return words.length ? [make("p", {}, `Cached and free in PyTorch's memory: ${words.join("; ")}.${fewer}`)] : [];
  }
  call({ born, stack }) {  // that made it: of a block none did
    return stack == null ? this.steps[born - 1].call : "";
  }
  owner(thing) {
    if (thing.stack != null) return this.data.torch.frames(thing.stack)[0] ?? "not known where";
    const { born, ended } = thing;
    const { process, owner } = this.steps[born - 1], [library, own] = parts_of_owner(this.data.owners[owner]);
    const whose = this.data.processes > 1 ? `${this.data.process(process, ended ? ended - 1 : this.at)}: ` : "";
    return whose + own + (library ? ", in other threads" : "");
  }
  // Which made the call, if that is not the program itself.
  library({ born, stack }) {
    return stack != null ? "" : this.data.libraries[this.steps[born - 1].stack];
  }
  // How much memory each library has asked for, the most first.
  by_library(kind, things) {
    if (!is_memory(kind) || !things.some((thing) => this.library(thing))) return [];
    const sizes = grouped(things, (thing) => this.library(thing))
      .map(([library, all]) => [sum(all.map(({ size }) => size)), library || "the program itself"]);
    const words = sizes.sort(([one], [other]) => other - one).map(([size, name]) => `${name} ${size_text(size)}`);
    const kept = kind == "ordinary" && this.at == this.steps.length
      ? " What a library allocates by cudaMalloc it usually keeps until the process ends." : "";
    return [make("p", {}, `By library: ${words.join(", ")}.${kept}`)];
  }
  // What led to a step, from what called its owner on: lines; of a thread or where there are none, functions.
  callers(thing) {
    if (thing.stack != null) return this.data.torch.frames(thing.stack).slice(1);
    const { led_there, stack, owner } = this.steps[thing.born - 1], [library] = parts_of_owner(this.data.owners[owner]);
    if (led_there.length) return led_there;
    const frames = this.data.frames(stack).filter(({ name }) => name);
    return frames.length ? frames.map(({ name, where }) => `${name}, ${where}`) : library ? [library] : [];
  }
  // From a depth on, where the callers of these begin to differ, or -1: what all have is not listed again and again.
  next_split(things, depth) {
    const all = things.map((thing) => this.callers(thing)), longest = Math.max(...all.map(({ length }) => length));
    for (; depth < longest; depth++) if (all.some((callers) => callers[depth] != all[0][depth])) return depth;
    return -1;
  }
  row(things, depth, words) {
    const [first] = things, { size: bytes, kind, device, held_by, is_idle } = first;
    const first_step = ({ since, born }) => since ?? born, born = things.map(first_step);
    const [from, to] = [Math.min, Math.max].map((of_two) => born.reduce((one, other) => of_two(one, other)));
    const when = from == to ? `step ${from}` : `steps ${from} to ${to}`, size = sum(things.map((thing) => thing.size));
    const may_open = things.length > 1, call = this.call(things.find((thing) => first_step(thing) == from));
    const library = depth ? "" : this.library(first), are_equal = things.every((thing) => thing.size == bytes);
    const name = may_open ? size && are_equal && `${things.length} × ${size_text(bytes)}` : name_of(first);
    const notes = [!depth && held_by, library && `in ${library}`, name != words && name, words != call && call,
      when].filter(Boolean);
    const swatch = make("i", { class: `vmm-swatch vmm-${is_idle ? "idle"
      : { memory: "mapped", torch: "mapped", ordinary: "ordinary", graphs: "ordinary" }[kind] ?? "none"}` });
    swatch.style.setProperty("--vmm-fill", `var(--vmm-gpu${Math.max(device, 0) % 8})`);
    return make("tr", { "data-depth": depth },
      make("td", {}, size ? size_text(size) : ""), make("td", {}, `${things.length} ×`),
      make("td", {}, swatch, of_device(first)),
      make("td", {}, ...may_open ? [this.opener(things, depth, words), " "] : [],
        make("a", { href: `#${this.key}=${from}` }, words),
        make("small", {}, ` ${notes.join(", ")}${this.use_of(things)}`)));
  }
  opener(things, depth, words) {
    const button = make_button("▸", () => {
      const row = button.closest("tr"), opens = button.textContent == "▸";
      if (opens) return row.after(...this.open(row, things, depth));
      while (row.nextElementSibling?.dataset.depth > depth) row.nextElementSibling.remove();
      button.setAttribute("aria-expanded", false);
      button.textContent = "▸";
    }, { "aria-expanded": "false", "aria-label": `Open ${words}` });
    return button;
  }
  // The rows in a row: by what called it; where that is the same for all, those that are alike; or each.
  open(row, things, depth) {
    const button = row.querySelector("button"), split = this.next_split(things, depth);
    const deeper = Math.max(split, depth) + 1;
    button.setAttribute("aria-expanded", true);
    button.textContent = "▾";
    const caller = (thing) => this.callers(thing)[split] ?? "", call = (thing) => this.call(thing);
    const likeness = (thing) => thing.size ? [thing.size, thing.mapped, call(thing)].join() : thing;
    const are_alike = things.every((thing) => likeness(thing) == likeness(things[0]));
    const key_of = split >= 0 ? caller : are_alike ? (thing) => thing : likeness;
    const words = ([thing, ...more]) => split >= 0 ? caller(thing) || "not known where"
      : more.length ? `${1 + more.length} × ${size_text(thing.size)}` : name_of(thing) || call(thing);
    const rows = this.rows(things, key_of, (some) => this.row(some, deeper, words(some)), deeper);
    for (const opened of rows) opened.style.setProperty("--vmm-depth", 1 + +row.style.getPropertyValue("--vmm-depth"));
    return rows;
  }
}
const name_of = ({ name, address }) => name ?? hex(address);
const of_device = ({ device, kind }) =>
  device == null || kind == "managed" ? "" : device >= 0 ? `GPU ${device}` : kind == "ordinary" ? "host" : "elsewhere";
