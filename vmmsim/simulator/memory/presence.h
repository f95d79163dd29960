// SPDX-License-Identifier: MIT-0
// The processes with calls in the trace: of one that ends without a word, by a signal or by exec, another tells. Each
// locks its place behind the records of the ledger; the system takes that lock away together with all that it held.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace memory {

void register_presence();       // this process, once, with its first call
void unregister_presence();     // it has told its end; perhaps in a handler of a signal
bool is_there(uint32_t place);  // whether who has this place has not ended
// The line of the trace for one that has vanished since somebody asked: its size, or 0 if there is none. Of `reaped`
// the status is known to whoever has waited for it, of others as long as nobody has. Perhaps in a handler, too.
size_t line_of_vanished(char* room, size_t size, pid_t reaped = 0, int status = 0);

}  // namespace memory
