# SPDX-License-Identifier: MIT-0
"""The program's own line behind each call, in words: Owners(recording).of(line), of one line after another.

Below a library's call it is the innermost line whose source is here, or else the innermost frame that lies in no file
of the system or of a package. A library's own thread has none: then the words are the library's function and what the
process's main thread had called last, for there the work was asked for. The end of a process has none.
"""

import re

from vmmsim.trace.line import ENDS
from vmmsim.trace.recording import OF_PACKAGES, OF_PYTHON, OF_THE_SYSTEM, short

SYSTEM = *OF_THE_SYSTEM, "/lib/", "/lib64/", "/usr/bin/", "/opt/nvidia/"
PYTHON = re.compile(r"python3?(\.\d+)?")


class Owners:
    def __init__(self, recording):
        self.recording, self.known = recording, {}
        self.main = {}  # by process: where its main thread called last

    def of(self, line):
        if line["call"] in ENDS:
            return ""
        key = tuple(line["callers"]), line["arguments"].get("func")
        if key not in self.known:
            self.known[key] = self.own(line)
        own, is_main = self.known[key], line["thread"] == line["pid"]
        if own and is_main:
            self.main[line["pid"]] = own
        if own:
            return own
        asked = "" if is_main else self.main.get(line["pid"], "")
        return self.of_library(line) + (f" in another thread, main thread last at {asked}" if asked else "")

    def own(self, line):
        file, row, function = self.recording.place(line)
        if self.recording.source(file):
            return worded(file, row, function)
        modules = []
        for caller in line["callers"]:
            if self.is_of_the_program(caller):
                module = caller.rpartition("+")[0]
                for file, row, function in self.recording.about.get("places", {}).get(caller, []):
                    if file or function:
                        return worded(file, row, short(function)) if file else f"{short(function)} in {module}"
                modules.append(module)
        return modules[0] if modules else ""

    def is_of_the_program(self, caller):
        if python := OF_PYTHON.fullmatch(self.recording.exact.get(caller, caller)):
            return not any(part in python[1] for part in OF_PACKAGES)
        module = caller.rpartition("+")[0]
        path = self.recording.modules.get(module)
        if not path:
            return bool(module) and ".so" not in module and not PYTHON.fullmatch(module)
        return not path.startswith(SYSTEM) and not any(part in path for part in OF_PACKAGES)

    def of_library(self, line):
        module = next((caller.rpartition("+")[0] for caller in line["callers"] if "+" in caller), "")
        return worded(*self.recording.place(line)) or module or "not known where"


def worded(file, row, function):
    return " in ".join(filter(None, [f"{file}:{row}" if file else "", function]))
