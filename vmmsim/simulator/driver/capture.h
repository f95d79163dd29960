// SPDX-License-Identifier: MIT-0
// Stream capture: what a program puts into a stream becomes nodes of a graph. A capture begins in one stream, its
// origin. Other streams take part from when they wait for an event that stands for captured nodes, until the origin
// ends the capture. A call that must not be made meanwhile is refused, and the capture is invalid from then on.
#pragma once
#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "events.h"
#include "graphs.h"
#include "operations.h"
#include "work.h"

namespace driver {

struct Capture {
  unsigned long long id;
  CUstreamCaptureMode mode;
  const Thread* thread;  // that began it
  const CUstream_st* origin;
  CUgraph graph;
  std::unique_ptr<CUgraph_st> own;                    // the graph, if the capture made it
  std::vector<std::shared_ptr<CUstream_st>> streams;  // that take part, the origin too
  std::vector<CUgraphNode> left_behind;               // by streams that were destroyed
  std::string invalid;                                // since this call; empty: it is valid
  bool has_ended = false;
};

[[noreturn]] void refuse_and_end(Capture&, CUresult error, const std::string& reason) REQUIRES(graphs().lock);
void require_valid(const Capture&) REQUIRES(graphs().lock);
// A capture whose streams the legacy stream minds, null for none.
Capture* minded_by_legacy(CUcontext) REQUIRES(graphs().lock);
// Lets all its streams go on as they were before.
void end_capture(const std::shared_ptr<Capture>&) REQUIRES(graphs().lock);
extern const char legacy_is_blocked[];

// --- For those who put something into streams ------------------------------------------------------------------------
// Adds work to the graph that a stream is captured into. False: it is not.
bool capture(CUstream_st&, const SharedWork&) EXCLUDES(graphs().lock, state().lock);
// A stream that captures takes the event for what it has captured, or goes on behind what the event stands for, and
// then captures too. False: the stream does not capture, nor does the event stand for what was captured.
bool capture_record(CUstream_st&, CUevent_st&) EXCLUDES(graphs().lock, state().lock);
bool capture_wait(CUstream_st&, const CUevent_st&) EXCLUDES(graphs().lock, state().lock);
// Refuses an event of a capture that is over or invalid, which a stream shall wait for; the stream's is invalid then.
void require_open_capture(CUstream_st&, const CUevent_st&) EXCLUDES(graphs().lock, state().lock);
bool is_capturing(const CUstream_st&) EXCLUDES(graphs().lock, state().lock);
void require_not_capturing(const CUstream_st&)
    EXCLUDES(graphs().lock, state().lock);  // to be waited for, or asked: throws if it captures
void require_not_capturing(const CUevent_st&, bool ends_capture)
    EXCLUDES(graphs().lock, state().lock);  // likewise if it stands for what was captured
void require_not_capturing(CUcontext) EXCLUDES(graphs().lock, state().lock);  // likewise if one of its streams captures
void leave_capture(CUstream_st&) EXCLUDES(graphs().lock, state().lock);       // which is destroyed
// Throws Refused in a thread for which a capture prohibits calls that do not go into a stream, or wait for one. The
// capture is invalid then.
void refuse_if_unsafe_in_capture() EXCLUDES(graphs().lock, state().lock);

}  // namespace driver
