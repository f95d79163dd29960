// SPDX-License-Identifier: MIT-0
// What happened between two steps, by line of the program: memory that was allocated, freed, mapped and unmapped there;
// of PyTorch's blocks by the line that had allocated them.
class Comparison extends Ownership {
  constructor(data, key, [from, to]) {
    super(data, key, to);
    this.from = from;
  }
  // [which column, size, step, line]...
  *events() {
    const { memory, blocks, mappings } = this.data;
    for (const its of memory) if (its && !its[2]) yield* its[4].map((step, nth) => [nth % 2, its[0], step]);
    for (const [, size, , born, died, kind] of blocks) if (kind != OPENED) yield* [[0, size, born], [1, size, died]];
    for (const [, , size, , born, died] of mappings) yield* [[2, size, born], [3, size, died]];
  }
  *of_torch() {
    for (const block of this.data.torch.blocks) {
      const [, , size, born, , died, stack] = block;
      yield* [[0, size, born, stack], [1, size, died, stack]];
    }
  }
  parts() {
    const columns = ["allocated", "freed", "mapped", "unmapped"];
    const all = [...this.table_of(this.events(), columns, "By line of the program"),
      ...this.table_of(this.of_torch(), columns.slice(0, 2), "PyTorch's blocks, by the line that allocated")];
    return [make(this.heading, {}, `From step ${this.from} to step ${this.at}`),
      ...all.length ? all : [make("p", {}, "Nothing was allocated, freed, mapped or unmapped.")]];
  }
  table_of(events, columns, title) {
    const its = [...events].filter(([, , step]) => step > this.from && step <= this.at);
    const bytes = (some) => sum(some.map(([, size]) => size));
    const first = (some) => Math.min(...some.map(([, , step]) => step));
    const lines = grouped(its, ([, , born, stack]) => this.owner({ born, stack }))
      .sort(([, one], [, other]) => bytes(other) - bytes(one) || first(one) - first(other));
    const cell = (some) => !some.length ? "–"
      : make("a", { href: `#${this.key}=${first(some)}` }, `${size_text(bytes(some))} in ${some.length}`);
    const cells = (some) => columns.map((_, nth) => make("td", {}, cell(some.filter(([column]) => column == nth))));
    const rows = lines.slice(0, most).map(([line, some]) => make("tr", {}, ...cells(some), make("td", {}, line)));
    if (lines.length > most)
      rows.push(make("tr", {}, make("td", { colspan: columns.length + 1 }, `… and ${lines.length - most} more`)));
    const head = make("tr", {}, ...[...columns, "by"].map((words) => make("th", { scope: "col" }, words)));
    if (!its.length) return [];
    return [make("table", { class: "vmm-lines" }, make("caption", {}, title), make("tbody", {}, head, ...rows))];
  }
}
