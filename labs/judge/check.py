# SPDX-License-Identifier: MIT-0
"""What the checks of a lab are written with, and how a student's file is judged by them.

A file labs/checks/NNx_name.py has the lab's TITLE, MINUTES, PAGE, OUTPUT and HINTS, and functions under @check("what
holds"), in the order in which they are to be told. Each takes a Run, and raises Wrong where something does not hold.
CONTRIBUTING.md, *How to add a lab*, has all of it.
"""

import dataclasses
import importlib.util
import itertools
import json
import re
import signal
import time

from labs.judge.program import ROOT, Program
from vmmsim.processes import signal_name
from vmmsim.trace.line import KEYS, SUCCESS, number
from vmmsim.trace.model import OF_MODULES, Machine

GLOSSARY = "docs/glossary.md"
NEVER = float("inf")
NOT_YET = "CUDA_ERROR_NOT_READY", "cudaErrorNotReady"  # an answer, and no refusal
GIVES_BACK = {  # what, and in words
    "cuMemRelease": ("handle", "released this handle"),
    "cuMemUnmap": ("ptr", "unmapped this address"),
    "cuMemAddressFree": ("ptr", "freed these addresses"),
    "cudaFree": ("devPtr", "freed this memory"),
}
BUILT, ENDED = "it is built", "no call is refused, no kernel faults, and it ends as it should"
GIVEN_BACK, PRINTED, REAL = "all is given back", "it prints what it should", "the same on this machine's GPUs"


class Wrong(Exception):
    """What was to happen and what happened; with the call, if one is to blame, or the run, if it is not the check's."""

    def __init__(self, wanted, happened, call=None, run=None):
        super().__init__(wanted, happened)
        self.wanted, self.happened, self.call = wanted, happened, call
        self.run = call.run if call else run
        self.moment = call.index if call else NEVER
        self.title = ""  # of what holds in every lab, if it is about that


def check(title, page=None, **options):
    """Marks a check, and says what holds if it raises nothing.

    Whoever fails it is led to `page`, or else to the lab's. Options are those of Run.again, for another run.
    """

    def mark(function):
        function.title, function.page, function.options = title, page, options
        return function

    return mark


@dataclasses.dataclass
class Call:
    """A line of the trace, `told`; `line` is the student's that led to it, or 0."""

    run: object
    index: int
    line: int
    pid: int
    name: str
    nth: int
    device: int
    arguments: dict
    result: str
    outputs: dict
    changes: list
    told: dict

    def __post_init__(self):
        self.succeeded = self.result in SUCCESS

    def argument(self, name):
        return number(self.arguments[name])

    def wrong(self, wanted, happened):
        return Wrong(wanted, happened, self)


class Run:
    """One run of a student's program on simulated GPUs: what it did and printed.

    gpus, machine, memory, fail and strict are vmmsim's; status is the exit status that is right, and refusals are the
    names of calls that may be refused.
    """

    def __init__(self, program, options):
        self.program, self.options, self.others = program, options, []
        self.status, self.refusals = options.get("status", 0), options.get("refusals", ())
        self.ended = program.run(**{key: value for key, value in options.items() if key not in ("status", "refusals")})
        self.stdout = self.ended.stdout
        self.said = [line for line in self.ended.stderr.splitlines() if not line.startswith("vmmsim: ")]
        self.explained = [line[8:] for line in self.ended.stderr.splitlines() if line.startswith("vmmsim: ")]
        self.is_disturbed = False  # something else than calls stands among them
        self.all = self.read_trace()

    def read_trace(self):
        lines, name = [], self.program.file.name + "+"
        for line in self.ended.trace.split(b"\n")[:-1]:  # the last may have been cut off
            try:
                lines.append(json.loads(line))
                self.is_disturbed |= lines[-1].keys() != set(KEYS)
            except (ValueError, AttributeError):
                self.is_disturbed = True
        if self.is_disturbed:
            return []
        frames = [
            [int(it.removeprefix(name), 16) - 1 for it in line["callers"] if it.startswith(name)] for line in lines
        ]
        places = self.program.lines(sorted(set(itertools.chain(*frames)))) if lines else {}
        return [
            Call(
                self,
                index,
                next((places[it] for it in addresses if it in places), 0),
                *(line[key] for key in ("pid", "call", "nth", "device", "arguments", "result", "outputs", "changes")),
                line,
            )
            for index, (line, addresses) in enumerate(zip(lines, frames, strict=True))
        ]

    def calls(self, *names):
        """The calls with these names that succeeded, in order; a name may end in *."""
        return [call for call in self.all if call.succeeded and any(is_named(call, name) for name in names)]

    def replay(self):
        """Each call with the machine after it, which goes on to change: look at it at once."""
        machine = Machine()
        for call in self.all:
            try:
                machine.line(call.told)
            except (AssertionError, KeyError, TypeError, ValueError, StopIteration, AttributeError) as error:
                if call.name == "cudaDeviceReset":  # what it destroys was not given back
                    return
                raise call.wrong("each call fits those before it", f"{call.name} cannot be followed: {error}") from None
            yield call, machine

    def again(self, **options):
        """Another run, such as again(gpus=2) or again(fail="cuMemCreate:2=CUDA_ERROR_OUT_OF_MEMORY", status=1).

        It too has to end as it should and to give all back; that is looked at when the check is through. This run must
        have done so before the other begins.
        """
        options = self.options | options
        if options == self.options:
            return self
        self.must_end()
        self.must_give_back()
        if not any(it.options == options for it in self.others):
            self.others.append(Run(self.program, options))
        return next(it for it in self.others if it.options == options)

    def where(self):
        """In words, which run this is."""
        gpus, machine, fail = self.options["gpus"], self.options.get("machine"), self.options.get("fail")
        words = f"on {gpus} simulated GPU{'s' if gpus > 1 else ''}"
        words += f", machine {machine}" if machine else ""
        words += ", with --strict" if self.options.get("strict") else ""
        words += ", with an importer that is slow" if self.options.get("slow_importer") else ""
        return words + (f", with --fail {fail}" if fail else "")

    def explanation(self, call):
        """What --explain says of a call that was refused, or "" if it says nothing."""
        return call.told.get("explanation", "")

    def is_injected(self, call):
        """Whether it is the call that `fail` lets fail."""
        return f"{call.name}:{call.nth}" == self.options.get("fail", "").partition("=")[0]

    # --- What holds in every lab

    def stopped(self):
        """The first thing that went wrong by itself, as a Wrong, or None."""
        for call in self.all:
            if call.succeeded or call.result in NOT_YET or call.name in self.refusals:
                continue
            if self.is_injected(call) or call.name in ("cudaGetLastError", "cudaPeekAtLastError"):
                continue
            if self.is_fault(call):
                happened = f"a kernel faulted, and {call.name} is the first to tell: {call.result}"
                wanted = "a kernel reads and writes only memory that is mapped, and to which its GPU has the right"
                return call.wrong(wanted, happened)
            return call.wrong("each call succeeds", f"{call.name} was refused: {call.result}{self.given_back(call)}")
        return self.wrong_end()

    def is_fault(self, call):
        return ": kernel " in self.explanation(call) or "Illegal" in call.result

    def must_not_stop_at(self, *names):
        """Nothing of these stopped the program: calls that are refused, by name, or a "kernel" that faults."""
        wrong = self.stopped()
        if wrong and wrong.call and ("kernel" if self.is_fault(wrong.call) else wrong.call.name) in names:
            raise wrong

    def given_back(self, call):
        """Where the program has given back before what this call is to give back, if it has."""
        argument, words = GIVES_BACK.get(call.name, ("", ""))
        for it in reversed(self.all[: call.index]):
            is_alike = (it.name, it.pid, it.succeeded) == (call.name, call.pid, True)
            if words and is_alike and it.line and it.arguments[argument] == call.arguments[argument]:
                return f"\nline {it.line} has {words} before"
        return ""

    def wrong_end(self):
        said = "\n".join(self.said[:20])
        to_do = re.search(rf"^(?:.*/)?{re.escape(self.program.source.name)}:(\d+): TODO: (.*)$", said, re.MULTILINE)
        last = next((call for call in reversed(self.all) if call.line), None)
        after = f"; the last call that came back is {last.name} in line {last.line}" if last else ""
        why, right = self.ended.why, f"the program ends by itself, with status {self.status}"
        wrong = None
        if self.is_disturbed:
            wrong = (
                "it wrote into the pipe that tells of its calls: did it write to a descriptor that it had not opened?"
            )
        elif why == "time":
            wrong = f"it was still running after {self.program.limit} seconds and was ended{self.who_waits() or after}"
        elif why in ("stdout", "stderr"):
            wrong = f"it printed without end, and was ended; it began with\n{(self.stdout or said)[:400]}"
        elif why == "trace":
            wrong = "it made calls without end, and was ended" + after
        elif why == "processes":
            wrong = "it started processes without end, and was ended"
        elif why == "left":
            wrong = "it ended, and processes that it had started went on; they were ended"
        elif to_do:
            wrong = Wrong("this part is yours to write", f"still to do: {to_do[2]}", self.line_of_file(int(to_do[1])))
        elif self.ended.status != self.status:
            number = -self.ended.status if self.ended.status < 0 else self.ended.status - 128
            is_signal = 0 < number < 65
            wrong = (
                f"it was ended by {signal_name(number)}" if is_signal else f"it ended with status {self.ended.status}"
            )
            wrong += (
                ": it wrote to a socket whose other end was closed, as when a process ends"
                if is_signal and number == signal.SIGPIPE
                else ""
            )
            wrong += after if is_signal else ""
            wrong += f", and said:\n{said}" if said else ""
            if self.ended.status == 125:
                wrong += "\n" + "\n".join(self.explained[-3:])
        elif not self.all:
            wrong = "it ended before its first call of CUDA: does something end it before main, or at its beginning?"
        if isinstance(wrong, str):
            wrong = Wrong(right, wrong, run=self)
        if wrong:
            wrong.moment = len(self.all)
        return wrong

    def ptx(self, kernel):
        """The instructions of a kernel, one text for each."""
        text = self.program.file.read_bytes().decode("latin-1")
        body = re.search(rf"\.entry \w*{kernel}\w*\([^)]*\)[^{{]*\{{(.*?)\n\}}", text, re.DOTALL)
        if not body:
            raise Wrong(f"the kernel is called {kernel}, as it was", "there is no such kernel", run=self)
        lines = (line.partition("//")[0].strip() for line in body[1].split("\n"))
        return [line for line in lines if line.endswith(";") and not line.startswith(".")]

    def part(self, words):
        """The student's part whose mark has these words: a place of the file that is no call."""
        lines = self.program.source.read_text(errors="replace").splitlines()
        mark = next((at for at, line in enumerate(lines, 1) if "// >>>" in line and words in line), -1)
        return self.line_of_file(mark + 1)

    def who_waits(self):
        """In words, for each process of several that had not ended: in what it waits, and after which call."""
        last = {call.pid: call for call in self.all if call.line and call.pid in self.ended.waits}
        if len(last) < 2:
            return ""
        exporters = {call.pid for call in self.calls("cuMemExportToShareableHandle")}
        words = ""
        for pid, call in last.items():
            who = "one process" if not exporters else "the exporter" if pid in exporters else "the importer"
            wait = f"waits in {self.ended.waits[pid]}" if self.ended.waits[pid] else "goes on"
            words += f"\n{who} {wait}, after {call.name} in line {call.line}"
        return words + ("\neach waits for the other" if all(self.ended.waits[pid] for pid in last) else "")

    def line_of_file(self, line):
        """A place of the student's file that is no call."""
        return Call(self, len(self.all), line, 0, "", 0, -1, {}, "", {}, [], {})

    def must_end(self):
        if wrong := self.stopped():
            wrong.title = ENDED
            raise wrong

    def must_give_back(self):
        if wrong := self.leak():
            raise wrong

    def leak(self):
        """The first thing that was not given back, as a Wrong, or None."""
        for call, words in self.leaks():
            wrong = call.wrong("at its end the program has given back all that it made", f"{call.name}: {words}")
            wrong.title = GIVEN_BACK
            return wrong
        return None

    def leaks(self):
        """What each process has not given back: (the call that made it, in words)."""
        made, machine = {}, Machine()
        for call, machine in self.replay():  # noqa: B007
            for change in call.changes:
                if change["kind"] in ("create", "import", "multicast_create", "retain"):
                    made[call.pid, "handle", number(change["handle"])] = call
                if change["kind"] in ("map", "reserve", "allocate"):
                    made[call.pid, change["kind"], number(change["address"])] = call
        found = []
        for pid, process in machine.processes.items():
            for name, block in process.blocks.items():
                if not block[2].startswith(OF_MODULES):
                    found.append((made[pid, "allocate", name], "it was never freed"))
            for name in process.mappings:
                found.append(
                    (made[pid, "map", name], "it is still mapped at the end: cuMemUnmap was not called for it")
                )
            for name, handle in process.handles.items():
                if handle.references:
                    words = (
                        "its handle is still held at the end: each cuMemCreate, import and retain needs a cuMemRelease"
                    )
                    found.append((made[pid, "handle", name], words))
            for name in process.reservations:
                words = "the addresses are still reserved at the end: cuMemAddressFree was not called for them"
                found.append((made[pid, "reserve", name], words))
        return sorted(found, key=lambda it: it[0].index)


def is_named(call, name):
    return call.name.startswith(name[:-1]) if name.endswith("*") else call.name == name


# --- A lab, and the verdict


class Lab:
    def __init__(self, path):
        self.name, self.number, self.path = path.stem, path.stem[:3], path
        spec = importlib.util.spec_from_file_location(f"lab_{self.name}", path)
        self.about = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.about)
        self.title, self.minutes, self.page = self.about.TITLE, self.about.MINUTES, self.about.PAGE
        self.hints, self.output = self.about.HINTS, self.about.OUTPUT
        self.options = {"gpus": getattr(self.about, "GPUS", 1), "strict": getattr(self.about, "STRICT", False)}
        self.checks = [it for it in vars(self.about).values() if hasattr(it, "title") and callable(it)]
        self.starter = ROOT / "labs/starters" / f"{self.name}.cu"
        self.solution = ROOT / "labs/solutions" / f"{self.name}.cu"


def all_labs():
    return [Lab(path) for path in sorted((ROOT / "labs/checks").glob("[0-9][0-9][a-z]_*.py"))]


@dataclasses.dataclass
class Verdict:
    """What is to be said of a file: the checks with "passed", "failed" or "not reached", and words."""

    lab: Lab
    status: str  # "passed", "failed", "not begun"
    checks: list = dataclasses.field(default_factory=list)
    words: str = ""
    seconds: float = 0.0
    failed: str = ""  # the title of the check
    page: str = ""  # where to read about it
    stdout: str = ""  # of the first run
    remarks: str = ""  # what the compiler warns of, and why it did not run on real GPUs


def judge(lab, source, real=False, limit=None):
    """The verdict on a file."""
    began = time.monotonic()
    options = {"architecture": getattr(lab.about, "ARCHITECTURE", 75)} | ({"limit": limit} if limit else {})
    with Program(source, **options) as program:
        verdict = Judge(lab, program, real).verdict()
    verdict.seconds = time.monotonic() - began
    return verdict


class Judge:
    def __init__(self, lab, program, real):
        self.lab, self.program, self.real = lab, program, real
        self.stdout = self.remarks = ""
        self.held = []  # titles, until something does not hold

    def verdict(self):
        title, words = self.first_wrong()
        titles = [BUILT, *(it.title for it in self.lab.checks), ENDED, GIVEN_BACK, PRINTED]
        titles += [REAL] if self.real else []
        checks = [(it, "failed" if it == title else "passed" if it in self.held else "not reached") for it in titles]
        status = "failed" if title else "passed"
        page = next((it.page for it in self.lab.checks if it.title == title and it.page), self.lab.page)
        return Verdict(self.lab, status, checks, words, 0.0, title, page, self.stdout, self.remarks)

    def first_wrong(self):
        """(title of the check, words) of what is to be told, or ("", "")."""
        built, said = self.program.build()
        if not built:
            return BUILT, said
        self.remarks = said
        self.held.append(BUILT)
        run = Run(self.program, self.lab.options)
        self.stdout = run.stdout
        for function in self.lab.checks:
            its = run
            try:
                its = run.again(**function.options)
                function(its)
                for other in run.others:
                    other.must_end()
                    other.must_give_back()
            except Wrong as wrong:
                return self.first_of(function.title, wrong, wrong.run or its)
            except Exception as error:  # of whoever wrote the check, but perhaps because the program has stopped before
                wrong = Wrong(
                    "this can be looked at", f"it cannot: {type(error).__name__} in {function.__name__}: {error}"
                )
                return self.first_of(function.title, wrong, its)
            self.held.append(function.title)
        last = (ENDED, run.must_end), (GIVEN_BACK, run.must_give_back), (PRINTED, lambda: self.must_print(run))
        if self.real:
            last = *last, (REAL, lambda: self.must_be_real(run))
        for title, holds in last:
            try:
                holds()
            except Wrong as wrong:
                return title, self.words(wrong)
            self.held.append(title)
        return "", ""

    def first_of(self, title, wrong, run):
        """What is to be told of a check that fails: perhaps the reason why the program has stopped before.

        Where another run leaks, and no call of it is to blame for something else, the leak is told.
        """
        wrong.run, stopped = run, run.stopped()
        if stopped and stopped.moment < wrong.moment:
            return ENDED, self.words(stopped)
        if run.options != self.lab.options and not wrong.call and not wrong.title:
            wrong = run.leak() or wrong
        return wrong.title or title, self.words(wrong)

    def must_print(self, run):
        if run.stdout != self.lab.output:
            raise Wrong(f"it prints\n{self.lab.output}", f"it printed\n{run.stdout}", run=run)

    def must_be_real(self, run):
        ended = self.program.run_on_gpu()
        if ended.status == 77 and "SKIP: " in ended.stdout:
            self.real = False
            self.remarks += f"This machine's GPUs cannot run it, which says nothing against it:\n{ended.stdout}"
            return
        if ended.status or ended.why or ended.stdout != self.lab.output:
            happened = f"status {ended.status} {ended.why}\n{ended.stdout}{ended.stderr}"
            raise Wrong(f"status 0\n{self.lab.output}", happened, run=run)

    def words(self, wrong):
        text, call, run = "", wrong.call, wrong.run
        if call and call.line:
            name = self.program.shown(str(self.program.source))
            source = self.program.source.read_text(errors="replace").splitlines()
            text = f"{name}:{call.line}\n    {source[call.line - 1].strip() if call.line <= len(source) else ''}\n"
        if run.options != self.lab.options:
            text += f"{run.where()}:\n"
        text += in_columns("What was to happen:", wrong.wanted) + in_columns("What happened:", wrong.happened)
        said = run.explanation(call) if call and call.told and not call.succeeded else ""
        if said and not run.is_injected(call):
            advice, in_full = advice_first(said, call)
            text += (in_columns("In words:", advice) if advice else "") + in_columns("The call in full:", in_full)
        return self.program.shown(text)


def advice_first(said, call):
    """What --explain says of a call: why it was refused and what to do; and the call, with the kernel that faulted."""
    in_full, answers, advice = said.partition(f" answers {call.result}: ")
    kernel, of_kernel, rest = advice.partition(" of its PTX): ")
    if of_kernel and kernel.startswith("kernel "):
        return rest, f"{in_full}{answers}{kernel}{of_kernel.removesuffix(': ')}"
    return advice, f"{in_full}{answers.removesuffix(': ')}"


def in_columns(heading, text):
    first, *more = text.splitlines() or [""]
    return f"{heading:20}{first}\n" + "".join(f"{'':20}{line}\n" for line in more)


def memory_under(machine, pid, address):
    """The mapping at an address of a process, or None."""
    its = machine.processes[pid].mappings.items()
    return next((mapping for at, mapping in its if at <= address < at + mapping.size), None)
