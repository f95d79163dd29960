// SPDX-License-Identifier: MIT-0
// Printed: does not compile: 'shareableHandles' was not declared in this scope
// Right: compiles
using HANDLE = void*;  // as Windows' headers have it
using DWORD = unsigned long;
int ReadFile(HANDLE, void*, DWORD, DWORD*, void*);

int receive(HANDLE mailslot, HANDLE* shareableHandle) {
  DWORD read = 0;
#ifdef AS_PRINTED
  return ReadFile(mailslot, shareableHandle, sizeof *shareableHandles, &read, nullptr);
#else
  return ReadFile(mailslot, shareableHandle, sizeof *shareableHandle, &read, nullptr);
#endif
}
