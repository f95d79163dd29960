// SPDX-License-Identifier: MIT-0
// Printed: does not compile: request for member 'hMailslot' in '\* mailslot', which is of non-class type[^!]*'i' was not declared
// Right: compiles
using HANDLE = void*;  // as Windows' headers have it
using DWORD = unsigned long;
int WriteFile(HANDLE, const void*, DWORD, DWORD*, void*);

int send(HANDLE* mailslot, HANDLE duplicate) {
  DWORD written = 0;
#ifdef AS_PRINTED
  return WriteFile(mailslot->hMailslot[i], &duplicate, sizeof duplicate, &written, nullptr);
#else
  return WriteFile(*mailslot, &duplicate, sizeof duplicate, &written, nullptr);
#endif
}
