# SPDX-License-Identifier: MIT-0
"""What is captured, and not executed: captured(lines), the numbers, from 1, of calls that become nodes of a graph.

That is all in a stream between the beginning and the end of its capture, and in those streams that wait, meanwhile, for
an event of one that is captured. What asks for a stream's state is no node.
"""

import collections
import re

from vmmsim.trace.line import SUCCESS

NODES = re.compile(
    r"cu(da)?(Launch|Graph(Launch|Upload)|Mem(cpy|set|Alloc|Free|Prefetch)|Malloc|Free|Event|StreamWait)\w*"
)


def captured(lines: list[dict]) -> set[int]:
    found: set[int] = set()
    captures: dict = collections.defaultdict(dict)  # by process: the capture of each stream, as that where it began
    events: dict = {}  # by process and event: the capture in which it was recorded
    for number, line in enumerate(lines, 1):
        stream, origins = stream_of(line), captures[line["pid"]]
        if line["result"] not in SUCCESS:
            continue
        if "StreamBeginCapture" in line["call"]:
            origins[stream] = stream
        elif "StreamEndCapture" in line["call"]:
            for member in [member for member, origin in origins.items() if origin == stream]:
                del origins[member]
        elif NODES.fullmatch(line["call"]):
            event = line["pid"], line["arguments"].get("event", line["arguments"].get("hEvent"))
            if "EventRecord" in line["call"]:
                events[event] = origins.get(stream)
            elif "StreamWaitEvent" in line["call"] and events.get(event) in origins.values():
                origins.setdefault(stream, events[event])
            if stream in origins:
                found.add(number)
    return found


def stream_of(line: dict) -> str | None:
    """As it is written, also of a launch that has a configuration."""
    arguments = line["arguments"]
    config = arguments.get("config")
    for given in arguments, config if isinstance(config, dict) else {}:
        for name in "stream", "hStream":
            if isinstance(given.get(name), str):
                return given[name]
    return None
