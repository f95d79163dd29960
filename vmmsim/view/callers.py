# SPDX-License-Identifier: MIT-0
"""The stack of a call, to be listed where there is no source: Callers(recording).of(line).

What only passes a call on is folded: the dispatcher of PyTorch, Python's interpreter, the C library, functions without
a name. Names are short: what leads to a class or a function is left out, and its arguments.
"""

import re

from vmmsim.trace.recording import short
from vmmsim.view.records import Frame

WRAPPERS = re.compile(
    r"c10::(impl::|Dispatcher|KernelFunction|BoxedKernel|OperatorHandle)|at::_ops::|at::redispatch::"
    r"|(.*::)?wrapper_\w+|(.*::)?VariableType::|(.*::)?VariableTypeManual|(.*::)?ADInplaceOrView"
    r"|std::|__gnu_cxx::|_?Py[A-Z_]\w*|_?py\w*_|pybind11::|(.*::)?operator\(\)|.*\{lambda"
    r"|cfunction_|method_vectorcall|slot_|type_call|thread_run|_?_libc_start|_start$|_?_?clone|start_thread|main_loop"
)
# Modules by which others call CUDA.
PASS_ON = re.compile(r"lib(cuda|cudart|c|ffi)\.so|.*\.cpython-|python3")


class Callers:
    """numbers: of each Frame; stacks: each once, the numbers of its frames, the innermost
    first. What is folded is a frame without a name. libraries: of each stack the one that called CUDA, or ""."""

    def __init__(self, recording):
        self.recording, self.stacks, self.libraries = recording, [], []
        self.numbers, self.known = {}, {}  # the second: of stacks, by their callers

    def of(self, line):
        """The number of the stack that led to a call."""
        key = tuple(line["callers"])
        if key not in self.known:
            self.known[key] = len(self.stacks)
            self.stacks.append([self.numbers.setdefault(frame, len(self.numbers)) for frame in self.folded(key)])
            self.libraries.append(library(key))
        return self.known[key]

    def folded(self, callers):
        places, hidden, last = self.recording.about.get("places", {}), [], None
        for caller in callers:
            module = caller.rpartition("+")[0]
            for file, row, function in places.get(caller) or [("", 0, "")]:
                frame = Frame(short(function) or file, f"{file}:{row}" if file else module)
                if not file and (not function or WRAPPERS.match(function)):
                    hidden.append(module)
                elif hidden or frame != last:  # of functions of one name only the innermost
                    yield from several(hidden)
                    hidden, last = [], frame
                    yield frame
        yield from several(hidden)


def library(callers):
    modules = (caller.rpartition("+")[0] for caller in callers)
    first = next((module for module in modules if not PASS_ON.match(module)), "")
    return first if ".so" in first else ""


def several(modules):
    """A frame that stands for some, in these files."""
    if any(modules):
        yield Frame("", f"{len(modules)} more in {', '.join(dict.fromkeys(filter(None, modules)))}")
