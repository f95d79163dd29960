// SPDX-License-Identifier: MIT-0
  // >>> your part: move the data from `from` to `to`
  CHECK(cuMemMap(to, size, 0, memory, 0));
  CHECK(cuMemSetAccess(to, size, &access, 1));  // access belongs to a mapping: the new one starts with none
  CHECK(cuMemUnmap(from, size));
  // <<<
