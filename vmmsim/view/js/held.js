// SPDX-License-Identifier: MIT-0
// What is held in a step, and by which line of the program. What a process had not given back when it ended is listed
// in all steps after that, so the last step has all that was left.
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
    for (const each of memory) {
      if (!each) continue;
      const [size, device, is_object, , steps] = each, nth = steps.findLastIndex((step) => step <= this.at);
      const kind = is_object ? "objects" : "memory";
      if (nth >= 0) yield* this.thing(kind, size, device, steps[nth - nth % 2], nth % 2 ? steps[nth] : 0);
    }
    for (const [, size, device, born, died, is_of_module] of blocks)
      if (!is_of_module) yield* this.thing("ordinary", size, device, born, died);
      else if (!died || died > this.at) yield* this.thing("modules", size, device, born, 0);
    const device_of = (nth) => memory[nth - 1]?.[1] ?? -1;
    for (const [, nth, born, died] of handles) yield* this.thing("handles", 0, device_of(nth), born, died);
    for (const [, nth, , born, died] of descriptors) yield* this.thing("descriptors", 0, device_of(nth), born, died);
    for (const [, , size, nth, born, died] of mappings)
      yield* this.thing("mappings", size, device_of(nth), born, died);
    for (const [, , , size, born, died] of reservations) yield* this.thing("reservations", size, null, born, died);
  }
  *thing(kind, size, device, born, died) {
    const is_left = died && died <= this.at;
    if (born > this.at || (is_left && this.steps[died - 1].call != "exit")) return;
    yield { kind, size, device, born, ended: is_left ? died : 0 };
  }

  parts() {
    const groups = grouped(this.things(), ({ ended }) => ended).sort(([one], [other]) => one - other);
    if (!groups.some(([ended]) => !ended) && (this.at < this.steps.length || !groups.length)) groups.unshift([0, []]);
    return groups.flatMap(([ended, things]) => [
      make("h3", {}, this.title(ended)), ...things.length ? this.tables(things) : [make("p", {}, "Nothing.")]]);
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
    const rows = grouped(things, key_of).map(([, its]) => ({ its, size: sum(its.map(({ size }) => size)) }));
    rows.sort((one, other) => other.size - one.size || other.its.length - one.its.length);
    const shown = rows.slice(0, most).map(({ its, size }) => this.row(its, size));
    const more = `… and ${rows.length - most} more`;
    if (rows.length > most) shown.push(make("tr", {}, make("td", { colspan: 4 }, more)));
    const rows_of = make("table", { "aria-label": held_kinds[kind] }, make("tbody", {}, ...shown));
    return make("details", { "data-kind": kind }, make("summary", {}, words), rows_of);
  }
  owner(step) {
    const { process, owner } = this.steps[step - 1];
    return (this.data.processes > 1 ? `process ${process + 1}: ` : "") + this.data.owners[owner];
  }
  row(its, size) {
    const born = its.map((thing) => thing.born), [from, to] = [Math.min(...born), Math.max(...born)];
    const when = from == to ? `step ${from}` : `steps ${from} to ${to}`;
    return make("tr", {},
      make("td", {}, size ? size_text(size) : ""), make("td", {}, `${its.length} ×`),
      make("td", {}, of_device(its[0])),
      make("td", {}, make("a", { href: `#${this.key}=${from}` }, this.owner(from)),
        make("small", {}, ` ${this.steps[from - 1].call}, ${when}`)));
  }
}
const of_device = ({ device, kind }) =>
  device == null ? "" : device >= 0 ? `GPU ${device}` : kind == "ordinary" ? "host" : "elsewhere";
