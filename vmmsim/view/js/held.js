// SPDX-License-Identifier: MIT-0
// What is held in a step, and by which line of the program; a row opens into the lines that called that one, the last
// of these into the allocations. What a process had not given back when it ended is listed in all steps after that, so
// the last step has all that was left.
const held_kinds = {
  memory: "VMM memory", ordinary: "Ordinary memory", objects: "Multicast objects", handles: "Handles not released",
  descriptors: "Open descriptors",
  mappings: "Mappings", reservations: "Reservations", modules: "For __device__ variables: goes with the program" };

class Held {
  constructor(data, key, at) {
    Object.assign(this, { data, key, at, steps: data.steps });
  }

  // Each thing with the step that made it; `ended` is the step in which its process left it.
  *things() {
    const { reservations, mappings, memory, handles, blocks, descriptors } = this.data;
    for (const [index, each] of memory.entries()) {
      if (!each) continue;
      const [size, device, is_object, , steps] = each, nth = steps.findLastIndex((step) => step <= this.at);
      const kind = is_object ? "objects" : "memory";
      const born = steps[nth - nth % 2], died = nth % 2 ? steps[nth] : 0;
      if (nth >= 0) yield* this.thing(kind, size, device, born, died, `#${index + 1}`);
    }
    for (const [, size, device, born, died, is_of_module] of blocks)
      if (!is_of_module) yield* this.thing("ordinary", size, device, born, died);
      else if (!died || died > this.at) yield* this.thing("modules", size, device, born, 0);
    const device_of = (nth) => memory[nth - 1]?.[1] ?? -1;
    for (const [, nth, born, died] of handles) yield* this.thing("handles", 0, device_of(nth), born, died, `#${nth}`);
    for (const [, nth, fd, born, died] of descriptors)
      yield* this.thing("descriptors", 0, device_of(nth), born, died, `${fd}, of #${nth}`);
    for (const [, , size, nth, born, died] of mappings)
      yield* this.thing("mappings", size, device_of(nth), born, died, `#${nth}`);
    for (const [, name, , size, born, died] of reservations)
      yield* this.thing("reservations", size, null, born, died, name);
  }
  *thing(kind, size, device, born, died, name = "") {
    const is_left = died && died <= this.at;
    if (born > this.at || (is_left && this.steps[died - 1].call != "exit")) return;
    yield { kind, size, device, born, ended: is_left ? died : 0, name };
  }

  parts() {
    const groups = grouped(this.things(), ({ ended }) => ended).sort(([one], [other]) => one - other);
    if (!groups.some(([ended]) => !ended) && (this.at < this.steps.length || !groups.length)) groups.unshift([0, []]);
    return groups.flatMap(([ended, things]) => [
      make(heading(), {}, this.title(ended)), ...things.length ? this.tables(things) : [make("p", {}, "Nothing.")]]);
  }
  title(ended) {
    const is_last = this.at == this.steps.length;
    if (!ended) return is_last ? `Left at the end, step ${this.at}` : `Held in step ${this.at}`;
    const whose = this.data.processes > 1 ? `process ${this.steps[ended - 1].process + 1}` : "the program";
    return `Left by ${whose}, which ended in step ${ended}`;
  }
  // Memory first. What keeps it there, and addresses, are folded unless they are all there is.
  tables(things) {
    const by_kind = new Map(grouped(things, ({ kind }) => kind)), is_memory = (kind) => /memory|ordinary/.test(kind);
    const has_memory = [...by_kind.keys()].some(is_memory);
    return Object.keys(held_kinds).filter((kind) => by_kind.has(kind)).map((kind) => {
      const fold = this.table(kind, by_kind.get(kind));
      fold.open = !has_memory || is_memory(kind);
      return fold;
    });
  }

  // One kind: all of it, then a row for each line, GPU and call; the largest first.
  table(kind, things) {
    const sizes = grouped(things.filter(({ device }) => device != null), of_device)
      .map(([device, its]) => [device, size_text(sum(its.map(({ size }) => size)))]).sort();
    const all = sum(things.map(({ size }) => size));
    const of = sizes.length > 1 && all ? ` (${sizes.map((words) => words.join(" ")).join(", ")})` : "";
    const unit = kind == "reservations" ? " of addresses" : "";
    const words = `${held_kinds[kind]}: ${all ? `${size_text(all)}${unit} in ` : ""}${things.length}${of}`;
    const key_of = (thing) => [of_device(thing), this.owner(thing.born), this.steps[thing.born - 1].call].join("\n");
    const rows = this.rows(things, key_of, (its) => this.row(its, 0, this.owner(its[0].born)));
    const rows_of = make("table", { "aria-label": held_kinds[kind] }, make("tbody", {}, ...rows));
    return make("details", { "data-kind": kind }, make("summary", {}, words), rows_of);
  }
  // The largest first.
  rows(things, key_of, row_of, depth = 0) {
    const groups = grouped(things, key_of).map(([, its]) => ({ its, size: sum(its.map(({ size }) => size)) }));
    groups.sort((one, other) => other.size - one.size || other.its.length - one.its.length);
    const shown = groups.slice(0, most).map(({ its }) => row_of(its)), more = `… and ${groups.length - most} more`;
    if (groups.length > most) shown.push(make("tr", { "data-depth": depth }, make("td", { colspan: 4 }, more)));
    return shown;
  }
  owner(step) {
    const { process, owner } = this.steps[step - 1];
    return (this.data.processes > 1 ? `process ${process + 1}: ` : "") + this.data.owners[owner];
  }
  // The lines that led to a step, from the one that called its owner on.
  callers({ born }) {
    return this.steps[born - 1].led_there;
  }
  row(its, depth, words) {
    const born = its.map((thing) => thing.born), [from, to] = [Math.min(...born), Math.max(...born)];
    const when = from == to ? `step ${from}` : `steps ${from} to ${to}`, size = sum(its.map((thing) => thing.size));
    const may_open = its.length > 1 || this.callers(its[0]).length > depth;
    const name = may_open || !its[0].name || words == its[0].name ? "" : `${its[0].name}, `;
    const row = make("tr", { "data-depth": depth },
      make("td", {}, size ? size_text(size) : ""), make("td", {}, `${its.length} ×`),
      make("td", {}, of_device(its[0])),
      make("td", {}, ...may_open ? [this.opener(its, depth, words), " "] : [],
        make("a", { href: `#${this.key}=${from}` }, words),
        make("small", {}, ` ${name}${this.steps[from - 1].call}, ${when}`)));
    row.style.setProperty("--vmm-depth", depth);
    return row;
  }
  opener(its, depth, words) {
    const button = make("button", { type: "button", "aria-expanded": "false", "aria-label": `Open ${words}` }, "▸");
    button.addEventListener("click", () => {
      const row = button.closest("tr"), opens = button.textContent == "▸";
      if (opens) row.after(...this.inside(its, depth));
      else while (row.nextElementSibling?.dataset.depth > depth) row.nextElementSibling.remove();
      button.setAttribute("aria-expanded", opens);
      button.textContent = opens ? "▾" : "▸";
    });
    return button;
  }
  // Of a row: what called it; or, if nothing is known of that, each by itself.
  inside(its, depth) {
    const caller = (thing) => this.callers(thing)[depth] ?? "", deeper = depth + 1;
    if (its.some(caller))
      return this.rows(its, caller, (some) => this.row(some, deeper, caller(some[0]) || "not known where"), deeper);
    const of = (one) => one.name || this.owner(one.born);
    return this.rows(its, (thing) => its.indexOf(thing), ([one]) => this.row([one], deeper, of(one)), deeper);
  }
}
const of_device = ({ device, kind }) =>
  device == null ? "" : device >= 0 ? `GPU ${device}` : kind == "ordinary" ? "host" : "elsewhere";
// Under the page's own title, or in a page of the book.
const heading = () => document.querySelector("body.vmm-alone, body.vmm-two") ? "h2" : "h3";
