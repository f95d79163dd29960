// SPDX-License-Identifier: MIT-0
  // >>> your part: find the first three mistakes
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));  // a reservation cannot be made larger later
  for (size_t at = 0; at < size; at += chunk) {
    CHECK(cuMemCreate(&memory[at / chunk], chunk, &properties, 0));
    CHECK(cuMemMap(address + at, chunk, 0, memory[at / chunk], 0));
    CHECK(cuMemSetAccess(address + at, chunk, &access, 1));
  }
  // <<<
  // >>> your part: find the last
  for (const CUmemGenericAllocationHandle one : memory) CHECK(cuMemRelease(one));
  CHECK(cuMemUnmap(address, size));  // both mappings; cuMemRelease undoes none
  CHECK(cuMemAddressFree(address, size));
  // <<<
