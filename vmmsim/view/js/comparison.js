// SPDX-License-Identifier: MIT-0
// What happened between two steps, by line of the program: memory that was allocated, freed, mapped and unmapped there;
// of PyTorch's blocks by the line that had allocated them.
class Comparison extends Ownership {
  constructor(data, key, [from, to]) {
    super(data, key, to);
    this.from = from;
  }
  *events() {
    const { memory, blocks, mappings } = this.data;
    for (const { size, steps } of memory.filter((record) => record && !record.is_multicast))
      yield* steps.map((born, nth) => ({ column: nth % 2 ? "freed" : "allocated", size, born }));
    yield* this.ends_of(blocks.filter(({ kind }) => kind != OPENED), "allocated", "freed");
    yield* this.ends_of(mappings, "mapped", "unmapped");
  }
  ends_of(records, begin, end) {
    return records.flatMap(({ size, born, died, ...record }) => [{ ...record, column: begin, size, born },
      { ...record, column: end, size, born: died }]);
  }
  parts() {
    const columns = ["allocated", "freed", "mapped", "unmapped"], of_memory = columns.slice(0, 2);
    const of_torch = this.ends_of(this.data.torch.blocks, ...of_memory);
    const all = [...this.table_of(this.events(), columns, "By line of the program"),
      ...this.table_of(of_torch, of_memory, "PyTorch's blocks, by the line that allocated")];
    return [make(this.heading, {}, `From step ${this.from} to step ${this.at}`),
      ...all.length ? all : [make("p", {}, "Nothing was allocated, freed, mapped or unmapped.")]];
  }
  table_of(events, columns, title) {
    const shown = [...events].filter(({ born }) => born > this.from && born <= this.at);
    const bytes = (some) => sum(some.map(({ size }) => size));
    const first = (some) => Math.min(...some.map(({ born }) => born));
    const lines = grouped(shown, (event) => this.owner(event))
      .sort(([, one], [, other]) => bytes(other) - bytes(one) || first(one) - first(other));
    const cell = (some) => !some.length ? "–"
      : make("a", { href: `#${this.key}=${first(some)}` }, `${size_text(bytes(some))} in ${some.length}`);
    const cells = (some) => columns.map((name) => make("td", {}, cell(some.filter(({ column }) => column == name))));
    const rows = lines.slice(0, most).map(([line, some]) => make("tr", {}, ...cells(some), make("td", {}, line)));
    if (lines.length > most)
      rows.push(make("tr", {}, make("td", { colspan: columns.length + 1 }, `… and ${lines.length - most} more`)));
    const head = make("tr", {}, ...[...columns, "by"].map((words) => make("th", { scope: "col" }, words)));
    if (!shown.length) return [];
    return [make("table", { class: "vmm-lines" }, make("caption", {}, title), make("tbody", {}, head, ...rows))];
  }
}
