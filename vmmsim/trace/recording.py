# SPDX-License-Identifier: MIT-0
"""A recording: what a program asked of CUDA's driver, as lines of JSON. It may be compressed with gzip.

A line is one of these:

- a call, as README.md tells it, which `vmmsim --trace` and the recorder for real GPUs write;
- {"module": "libc10_cuda.so", "path": "/where/it/is/libc10_cuda.so"}, which a recorder may write;
- {"about": {...}}, once, written after the run: the command, where it ran, its exit status, and what debug lines and
  source files tell. It may be missing.

What is read can be shown: a byte that is not UTF-8 has become \\xf6. Files are found by their exact paths.
"""

import collections
import contextlib
import gzip
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import zlib

from vmmsim.trace.line import ENDS, IN_WORDS, KEYS, VERSION, is_version, known_part, validate_call
from vmmsim.trace.places import places, run

LONGEST_LINE = 32 << 20  # bytes
MOST_SOURCE = 512 << 10  # bytes of one source file
MOST_SOURCES = 2 << 20  # of all
LONGEST_NAME = 200  # of a function
LONG_NAME = 60  # is shown without its arguments
OF_THE_SYSTEM = "/usr/include/", "/usr/lib/", "/usr/local/include/", "/usr/local/cuda"
OF_PACKAGES = "/site-packages/", "/dist-packages/", "/lib/python3", "-linux/include/"  # the last: of a toolkit's target
OF_PYTHON = re.compile(r"(/.+):(\d+):([^:]*)")  # a caller: file, line, function
LETS_GO = {"release", "unmap", "unbind"}  # changes by which a call itself may be the reason that memory is gone
OF_LOADING = "cuGetProcAddress"  # libraries ask for hundreds of calls before they begin; the recorder leaves it out
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\udc80-\udcff]")
BYTE = re.compile("[\udc80-\udcff]")  # that is not UTF-8, as surrogateescape has it
BEGIN = r'\{"(?:pid|module|about)":'
PART = re.compile(rf'{BEGIN}|\{{(?:"[a-z]*"?:?)?(?={BEGIN})')  # the beginning of a line, perhaps before another's
KINDS_OF_WORK = "kernel", "copy", "memset"
OF_ABOUT = {"command": list, "where": str, "gpus": int, "status": int, "places": dict, "sources": dict}


class Broken(Exception):
    """Why a file is no recording: it names the file, the line, and what was expected."""


class Recording:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.lines: list[dict] = []  # the calls
        self.about: dict = {}
        self.modules: dict[str, str] = {}  # exact path, by name
        self.exact: dict[str, str] = {}  # callers as they were written, where what is shown differs
        self.is_cut = False  # the last line was
        self.version = 1  # that of a recording which says none
        self.new: set[str] = set()  # what a newer writer tells, and nobody here knows
        self.torn: list[int] = []  # the numbers of other lines that break off

    @classmethod
    def read(cls, path: "str | os.PathLike[str]") -> "Recording":
        recording = cls(path)
        number = 0
        try:
            with opened(path) as file:
                for number, line in enumerate(whole_lines(recording, file), 1):
                    recording.add(line, number)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno:
                raise Broken(f"{path} cannot be read: {error.strerror}") from None
            if not isinstance(error, EOFError):  # it is compressed, and its end is there
                raise Broken(f"{path} is no recording: it cannot be decompressed after line {number}") from None
            recording.is_cut = True
        recording.is_cut |= bool(recording.about.get("is_cut"))
        recording.join_ends_of_memory()
        recording.join_waits()
        recording.join_work()
        return recording

    def join_work(self) -> None:
        """What GPUs did is told after the call that gave it to them, mostly: it joins that call, as `work`."""
        calls: dict = {}  # by process and correlation, the last
        early: dict = collections.defaultdict(list)
        for line in self.lines:
            if "correlation" in line:
                key = line["pid"], line["correlation"]
                calls[key], line["work"] = line, early.pop(key, [])
            told = line["arguments"].get("work") if line["call"] == "executed" else None
            for work in filter(is_work, told if isinstance(told, list) else ()):
                key = line["pid"], work["correlation"]
                (calls[key]["work"] if key in calls else early[key]).append(work)
        self.lines = [line for line in self.lines if line["call"] != "executed"]

    def join_waits(self) -> None:
        """That a call waits is of interest only if it never ends."""
        ended = {(line["pid"], line["call"], line["nth"]) for line in self.lines}

        def is_over(line):
            arguments = line["arguments"]
            return line["call"] == "wait" and (line["pid"], arguments.get("call"), arguments.get("nth")) in ended

        self.lines = [line for line in self.lines if not is_over(line)]

    def join_ends_of_memory(self) -> None:
        """Memory goes in the step that was the reason, a close or the end of a process. It is told in its own line,
        or by the next call that looks, as each does that changes something: if none has between, none has looked."""
        last: dict = {}  # by thread
        end, looked, joined = None, 0, set()
        for at, line in enumerate(self.lines):
            kinds = {change.get("kind") for change in line["changes"] if isinstance(change, dict)}
            before = last.get((line["pid"], line["thread"]))
            closed = before if line["call"] == "gone" and before and before["call"] == "close" else None
            reason = closed or (end if looked < (2 if line["call"] == "gone" else 1) else None)
            if reason and "gone" in kinds and not kinds & LETS_GO:
                gone = [change for change in line["changes"] if change.get("kind") == "gone"]
                reason["changes"] = [*reason["changes"], *gone]
                line["changes"] = [change for change in line["changes"] if change not in gone]
                joined |= {at} if line["call"] == "gone" else set()
            if line["call"] in ENDS:
                end, looked = line, 0
            looked += bool(kinds)
            last[line["pid"], line["thread"]] = line
        self.lines = [line for at, line in enumerate(self.lines) if at not in joined]

    def add(self, text: str, number: int) -> None:
        def broken(problem):
            newer = f"; {self.newer_version()}" if self.version > VERSION else ""
            return Broken(f"{self.path} is no recording: line {number} {problem}{newer}")

        line = parsed(text)
        if line is None and (PART.match(text) or self.torn):  # the second: its rest
            self.torn.append(number)
            line = whole_part(text)
            if line is None:
                return
        if line is None:
            raise broken(f"is no JSON; expected an object with the members {', '.join(KEYS)}")
        if not isinstance(line, dict):
            raise broken(f"is no object; expected one with the members {', '.join(KEYS)}")
        exact = line
        if SURROGATE.search(text):
            line = as_shown(line)
        if "module" in line:
            if not all(isinstance(line.get(key), str) for key in ("module", "path")):
                raise broken('tells of a module; expected {"module": "its name", "path": "where it is"}')
            self.modules[line["module"]] = exact["path"]
        elif "about" in line:
            if self.about:
                raise broken("is a second one that begins with \"about\": are these two recordings in one file?")
            self.about = line["about"]
            wrong = self.wrong_in_about()
            if wrong:
                raise broken(f"says what the recording is about; expected {wrong} there")
        else:
            if is_version(version := line.get("version", 1)):
                self.version = max(self.version, version)
            line, new = known_part(line)
            self.new.update(new)
            wrong = validate_call(line)
            if wrong:
                raise broken(f"is no call; expected {wrong}")
            if line["call"] != OF_LOADING:
                self.lines.append(line)
                if line["callers"] != exact["callers"]:
                    self.exact.update(zip(line["callers"], exact["callers"], strict=True))

    def newer_version(self) -> str:
        return f"it is a trace of version {self.version}, and this vmmsim knows version {VERSION}: use a newer vmmsim"

    def missing(self) -> list[str]:
        """What the recording has lost, in sentences."""
        sentences = []
        if self.version > VERSION:
            sentences.append(f"What is shown may be wrong: {self.newer_version()}.")
        if self.new:
            sentences.append(
                f"A newer vmmsim has made the recording. Passed over is what this one does not know: "
                f"{', '.join(sorted(self.new))}."
            )
        if self.torn:
            several = len(self.torn) > 1
            numbers = ", ".join(map(str, self.torn[:3])) + (f" and {len(self.torn) - 3} more" * (len(self.torn) > 3))
            sentences.append(
                f"Line{'s' * several} {numbers} of the recording break{'s' * (not several)} off: a process was ended "
                f"while it wrote, or there was no room left. {'Their calls are' if several else 'Its call is'} missing."
            )
        if self.is_cut:
            sentences.append("The last line of the recording is cut off: it ends before the program did.")
        return sentences + self.missing_ends()

    def processes(self) -> list[int]:
        """Their pids, in the order in which they first change something; then those that change nothing."""
        changing = (line["pid"] for line in self.lines if line["changes"])
        return list(dict.fromkeys(itertools.chain(changing, (line["pid"] for line in self.lines))))

    def missing_ends(self) -> list[str]:
        """Of several processes: what is not known of how they end."""
        pids = self.processes()
        ended = {line["pid"] for line in self.lines if line["call"] in ENDS}
        if len(pids) < 2 or len(ended) == len(pids):
            return []
        if not ended:
            return [
                "It is not recorded how each process ended, so what one held that was killed counts as left at the end."
            ]
        alive = ", ".join(str(nth) for nth, pid in enumerate(pids, 1) if pid not in ended)
        several = len(pids) - len(ended) > 1
        return [
            f"The recording ends before process{'es' * several} {alive}. What {'they' if several else 'it'} held then "
            "counts as left at the end."
        ]

    def wrong_in_about(self) -> str:
        if not isinstance(self.about, dict):
            return "an object"
        for key, kind in OF_ABOUT.items():
            if not isinstance(self.about.get(key, kind()), kind):
                return f"{key} as {IN_WORDS[kind]}"
        for name, text in self.about.get("sources", {}).items():
            if not isinstance(text, str):
                return f"a text as the source {name}"
        for caller, known in self.about.get("places", {}).items():
            are_right = isinstance(known, list) and all(
                isinstance(place, list) and list(map(type, place)) == [str, int, str] for place in known
            )
            if not are_right:
                return f'[["file", line, "function"], ...] as the places of {caller}'
        return "" if all(isinstance(word, str) for word in self.about.get("command", [])) else "words as the command"

    def times(self) -> "list[int] | None":
        """Of each call, microseconds since the first: never less than of the call before it. None: none has a time."""
        if not any("time" in line for line in self.lines):
            return None
        known, first = list(itertools.accumulate((line.get("time", 0) for line in self.lines), max)), self.first_time()
        return [max(0, time - first) for time in known]

    def first_time(self) -> int:
        return next((line["time"] for line in self.lines if line.get("time", 0) > 0), 0)

    def took(self) -> "list[int | None] | None":
        """Of each call, the microseconds from its beginning to its end. None: none tells when it began."""
        if not any("began" in line for line in self.lines):
            return None
        return [line["time"] - line["began"] if "began" in line and "time" in line else None for line in self.lines]

    def places(self, line: dict) -> list[tuple[str, int, str]]:
        """All that is known of where a call was made, the innermost first: [(file, line, function), ...].

        A kernel is launched by a function of its name that the compiler makes: where that is called is what counts.
        """
        known = self.about.get("places", {})
        found = [tuple(place) for caller in line["callers"] for place in known.get(caller, [])]
        launchers = [i for i, place in enumerate(found) if place[2] and place[2] == line["arguments"].get("func")]
        return found[launchers[-1] + 1 :] if launchers and launchers[-1] + 1 < len(found) else found

    def place(self, line: dict) -> tuple[str, int, str]:
        """(file, line, function): the innermost whose source is here; else the innermost with a line; else ("", 0, the
        innermost function that is known)."""
        file, number, function = self.innermost(self.places(line))
        return file, number, shortened(function) if file else short(function)

    def innermost(self, found: list[tuple[str, int, str]]) -> tuple[str, int, str]:
        for is_known in (lambda place: self.source(place[0]), lambda place: place[1], lambda place: place[2]):
            for place in found:
                if is_known(place):
                    return place
        return "", 0, ""

    def led_there(self, line: dict) -> list[str]:
        """["file:line", ...]: where the function was called that made a call, and so on, if the source is here."""
        found = self.places(line)
        place = self.innermost(found)
        outer = found[found.index(place) + 1 :] if place in found else []
        return [f"{file}:{number}" for file, number, _ in outer if self.source(file)]

    def source(self, name: str) -> str:
        return self.about.get("sources", {}).get(name, "")


def is_work(work):
    """Of a line `executed`."""
    numbers = "correlation", "device", "start", "end"
    return (
        isinstance(work, dict)
        and all(type(work.get(key)) is int and work[key] >= 0 for key in numbers)
        and type(work.get("bytes", 0)) is int
        and work.get("kind") in KINDS_OF_WORK
        and isinstance(work.get("name", ""), str)
        and work["start"] <= work["end"]
    )


def shortened(function, long=LONG_NAME):
    """A long name of C++ without its arguments and those of its templates."""
    if len(function) <= long:
        return function
    name, depth = "", 0
    for letter in function.replace("(anonymous namespace)", "\0"):
        if letter == "<":
            name += "<...>" * (depth == 0)
            depth += 1
        elif letter == ">":
            depth = max(0, depth - 1)
        elif letter == "(" and depth == 0 and name and not name.endswith("operator"):
            name += "(...)"
            break
        elif depth == 0:
            name += letter
    return name.replace("\0", "(anonymous namespace)")


def bare(function):
    """Its name alone, without what it returns, takes or is made for."""
    name = shortened(function, 0).replace("(...)", "").replace("<...>", "").replace("(anonymous namespace)::", "")
    return name.removeprefix("void ")


def short(function):
    """DeviceCachingAllocator::malloc of c10::cuda::CUDACachingAllocator::DeviceCachingAllocator::malloc(size_t)."""
    return "::".join(bare(function).split("::")[-2:])


def parsed(text):
    """What this JSON is; None: it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def whole_part(text):
    """The line that another process wrote where one broke off, or None."""
    for begin in re.finditer(BEGIN, text):
        if begin.start() and isinstance(line := parsed(text[begin.start() :]), dict):
            return line
    return None


def as_shown(value):
    """What is read of JSON, or a text, without halves of letters, which could be written nowhere."""
    text = BYTE.sub(lambda byte: rf"\\x{ord(byte[0]) & 0xFF:02x}", json.dumps(value, ensure_ascii=False))
    return json.loads(text.encode(errors="replace"))


@contextlib.contextmanager
def opened(path):
    with open(path, "rb") as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        with gzip.open(file) as content:
            yield content


def whole_lines(recording, file):
    """The lines that have their end, as texts. Marks the recording if its last has none."""
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        text = line.decode(errors="surrogateescape")
        if line.endswith(b"\n") or isinstance(parsed(text), dict):  # the second: whole, if without its end
            yield text
        elif len(line) >= LONGEST_LINE:
            raise Broken(f"{recording.path} is no recording: line {number} is longer than {LONGEST_LINE >> 20} MiB")
        elif line.startswith(b'{"'):
            recording.is_cut = True
        else:
            raise Broken(f"{recording.path} is no recording: line {number} is no JSON; expected an object")


# --- After a run


def finish(path: "str | os.PathLike[str]", command: list, where: str, gpus: int, status: int) -> list[str]:
    """Writes the line `about` to the end of a recording; returns what could not be told, in sentences.

    A line that was cut off goes; what was written before it stays as it is, also if there is no room for this one.
    """
    recording = Recording.read(path)
    found, sources, wrong = find_places(recording, command)
    about = {
        "command": [str(word) for word in command],
        "where": where,
        "gpus": gpus,
        "status": status,
        "places": found,
        "sources": sources,
    }
    if recording.is_cut:
        about["is_cut"] = True
    append(path, json.dumps({"about": about}) + "\n", recording.is_cut)
    return wrong


def append(path, line, is_cut):
    """Adds a line to a file, whole or not at all; instead of the last one, if that was cut off."""
    with open(path, "r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        while is_cut and end and os.pread(file.fileno(), 1, end - 1) != b"\n":
            begin = max(0, end - LONGEST_LINE)
            end = begin + os.pread(file.fileno(), end - begin, begin).rfind(b"\n") + 1
        content = b"" if not end or os.pread(file.fileno(), 1, end - 1) == b"\n" else b"\n"
        content += line.encode()
        file.truncate(end)
        file.seek(end)
        try:
            while content:
                content = content[file.write(content) :]
        except OSError:
            file.truncate(end)
            raise


def find_places(recording, command):
    """For the callers of a recording: places by caller, sources by name, and sentences on what could not be told."""
    offsets = collections.defaultdict(dict)  # by module: offset -> caller
    found, newer, wrong = {}, set(), []
    for caller in dict.fromkeys(caller for line in recording.lines for caller in line["callers"]):
        if python := OF_PYTHON.fullmatch(recording.exact.get(caller, caller)):
            found[caller] = [(os.path.normpath(python[1]), int(python[2]), python[3])]
            continue
        module, plus, offset = caller.rpartition("+")
        with contextlib.suppress(ValueError):
            if plus and (at := int(offset, 16)):
                offsets[module][at - 1] = caller  # it is where the call returns to: one less lies in the call
    files = recording.modules | files_of(command, set(offsets) - set(recording.modules))
    for module, callers in offsets.items():
        if module not in files:
            continue
        try:
            in_module = places(files[module], callers)
            built = os.stat(files[module]).st_mtime
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            wrong.append(f"no lines of {module} can be told: {why_not(error, files[module])}")
            continue
        for offset, of_offset in in_module.items():
            found[callers[offset]] = [(os.path.normpath(path) if path else "", *rest) for path, *rest in of_offset]
            newer |= {path for path, *_ in found[callers[offset]] if is_newer(path, built)}
    names = short_names({path for known in found.values() for path, *_ in known if path})
    by_caller = {
        caller: [
            [names.get(path, ""), line, as_shown(function.partition(" [clone")[0][:LONGEST_NAME])]
            for path, line, function in known
        ]
        for caller, known in found.items()
    }
    sources = read_sources(names)
    for path in sorted(newer):
        if names[path] in sources:
            wrong.append(
                f"{as_shown(path)} is newer than the program that was built of it: its lines may be others now"
            )
    return by_caller, sources, wrong


def why_not(error, file):
    if not isinstance(error, FileNotFoundError):
        return error
    return "addr2line is missing: install binutils" if error.filename == "addr2line" else f"{as_shown(file)} is gone"


def is_newer(path, built):
    with contextlib.suppress(OSError):
        return os.stat(path).st_mtime > built
    return False


def files_of(command, names):
    """Where the programs and libraries of these names are, as far as the command of a run tells."""
    found = {}

    def add(file):
        for path in file, os.path.realpath(file):
            found.setdefault(as_shown(os.path.basename(path)), file)

    for word in map(str, command):
        file = shutil.which(word) if word == str(command[0]) else word
        if file and os.path.isfile(file):
            add(file)
    if names - set(found) and command and (program := shutil.which(command[0])):
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            for line in run(["ldd", program], timeout=20).splitlines():
                file = line.rpartition("=> ")[2].rpartition(" (")[0].strip()
                if os.path.isfile(file):
                    add(file)
    return {name: found[name] for name in names if name in found}


def short_names(paths):
    """For each path its last parts, as they are shown: as few as tell them all apart."""
    names, count, left = {}, 1, {path: pathlib.PurePath(as_shown(path)).parts for path in paths}
    while left:
        shortened = {path: "/".join(parts[-count:]) for path, parts in left.items()}
        often = collections.Counter(shortened.values())
        for path, name in shortened.items():
            if often[name] == 1 or count >= len(left[path]):
                names[path] = name
        left = {path: parts for path, parts in left.items() if path not in names}
        count += 1
    return names


def read_sources(names):
    """By their names, the texts of those files that are the user's own, and not the system's or the toolkit's."""
    sources, room = {}, MOST_SOURCES
    for path, name in names.items():
        if path.startswith(OF_THE_SYSTEM) or any(part in path for part in OF_PACKAGES):
            continue
        with contextlib.suppress(OSError):
            if os.path.isfile(path) and os.path.getsize(path) <= min(room, MOST_SOURCE):
                with open(path, "rb") as file:
                    sources[name] = file.read(MOST_SOURCE).decode(errors="replace")
                room -= len(sources[name])
    return sources
