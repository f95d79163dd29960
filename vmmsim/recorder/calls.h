// SPDX-License-Identifier: MIT-0
// The calls that are recorded, with the structures in which CUPTI gives their arguments.
#pragma once
#include <cupti.h>

#include <cstdint>
#include <unordered_map>
#include "../trace/arguments.h"
#include "model.h"

namespace recorder {

struct RecordedCall {
  enum Kind {
    asks,   // changes nothing
    gives,  // what it changes is known when it has succeeded
    takes,  // what it changes may be another call's again before it returns: looked at when it begins
    works,  // a GPU gets work, and the call does not wait for that
    waits,  // for work of a GPU, perhaps for ever: told of before it has ended
    joins,  // of interest while a stream is captured: another may become part of that
    tells   // of a context's device; a line does not tell of it
  } kind;
  bool may_give_work() const { return kind == works || kind == waits; }
  trace::Call (*call)(const void* parameters);
  void (*change)(Model&, const void* parameters, const void* context);  // the context that is current
};

using RecordedCalls = std::unordered_map<CUpti_CallbackId, RecordedCall>;
const RecordedCalls& recorded_calls(CUpti_CallbackDomain);

}  // namespace recorder
