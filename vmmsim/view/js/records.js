// SPDX-License-Identifier: MIT-0
// Records, packed as records.py says, by the names of their columns. Another name is a mistake, and nothing undefined.
const no_column = new Proxy({}, { get(_, name) {
  if (typeof name == "string") throw new Error(`no column is called ${name}`);
} });
const as_record = (members) => Object.setPrototypeOf(members, no_column);

function unpacked(packed, shape) {
  if (!shape || !packed) return packed;
  if (Array.isArray(shape)) return packed.map((part) => unpacked(part, shape[0]));
  const is_record = Array.isArray(packed), members = {};
  let count = 0;
  for (const name in is_record ? shape : packed)
    members[name] = unpacked(packed[is_record ? count++ : name], shape[name]);
  if (is_record && count != packed.length) throw new Error(`${packed.length} values for ${Object.keys(shape)}`);
  return is_record ? as_record(members) : members;
}
function rows_of_columns(columns) {
  return columns.call.map((_, index) => {
    const row = {};
    for (const name in columns) row[name] = columns[name][index];
    return as_record(row);
  });
}
