// SPDX-License-Identifier: MIT-0
// Records, packed as records.py says, by the names of their columns. Another name is an error.
const no_column = new Proxy({}, { get(_, name) {
  if (typeof name == "string") throw new Error(`no column is called ${name}`);
} });

function unpacked(packed, shape) {
  if (!shape || !packed) return packed;
  if (Array.isArray(shape)) return packed.map((part) => unpacked(part, shape[0]));
  const is_record = Array.isArray(packed), members = {};
  let count = 0;
  for (const name in is_record ? shape : packed)
    members[name] = unpacked(packed[is_record ? count++ : name], shape[name]);
  if (is_record && count != packed.length) throw new Error(`${packed.length} values for ${Object.keys(shape)}`);
  return is_record ? Object.setPrototypeOf(members, no_column) : members;
}
function rows_of_columns(columns) {
  return columns.call.map((_, index) => {
    const row = {};
    for (const name in columns) row[name] = columns[name][index];
    return Object.setPrototypeOf(row, no_column);
  });
}
