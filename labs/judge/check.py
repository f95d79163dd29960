# SPDX-License-Identifier: MIT-0
"""What the checks of a lab are written with.

A file labs/checks/NNx_name.py has the lab's TITLE, MINUTES, PAGE, OUTPUT and HINTS, and functions under @check("what
holds"), in the order in which they are to be told. Each takes a Run, and raises Wrong where something does not hold.
CONTRIBUTING.md, *How to add a lab*, has all of it.
"""

import dataclasses
import re

from labs.judge import diagnosis
from vmmsim.trace.line import SUCCESS, number
from vmmsim.trace.model import Machine

NEVER = float("inf")
GIVES_BACK = tuple(diagnosis.GIVES_BACK)  # calls
AFTER_FAILURE = (*GIVES_BACK, "cuMulticastUnbind", "cuGetError", "cudaGet", "exit", "close")  # calls
ENDED = "no call is refused, no kernel faults, and it ends as it should"
GIVEN_BACK = "all is given back"


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


@dataclasses.dataclass(eq=False)
class Call:
    """A line of the trace; `line` is the student's that led to it, or 0."""

    run: object
    index: int
    line: int
    traced: dict  # what model.Machine takes; empty of a place that is no call
    pid: int = 0
    name: str = ""
    nth: int = 0
    device: int = -1
    arguments: dict = dataclasses.field(default_factory=dict)
    result: str = ""
    outputs: dict = dataclasses.field(default_factory=dict)
    changes: list = dataclasses.field(default_factory=list)
    explanation: str = ""  # of a call that was refused
    fault: dict = None  # "where" and "why", of a call that answers what a kernel or copy did wrong

    @property
    def succeeded(self):
        return self.result in SUCCESS

    def argument(self, name):
        return number(self.arguments[name])

    def wrong(self, wanted, happened):
        return Wrong(wanted, happened, self)


@dataclasses.dataclass(eq=False)
class Run:
    """One run of a student's program on simulated GPUs: what it did and printed.

    gpus, machine, memory, fail and strict are vmmsim's options; status is the exit status that is right, and refusals
    are the names of calls that may be refused.
    """

    runner: object  # makes other runs of the program
    options: dict
    ended: object  # how it ended
    all: list = dataclasses.field(default_factory=list)  # calls
    is_disturbed: bool = False  # something else than calls stands among them
    others: list = dataclasses.field(default_factory=list)  # runs for which this one was not enough

    @property
    def program(self):
        return self.runner.program

    @property
    def status(self):
        return self.options.get("status", 0)

    @property
    def stdout(self):
        return self.ended.stdout

    @property
    def said(self):
        """What the program itself has written to stderr."""
        return [line for line in self.ended.stderr.splitlines() if not line.startswith("vmmsim: ")]

    def calls(self, *names):
        """The calls with these names that succeeded, in order; a name may end in *."""
        return [call for call in self.all if call.succeeded and any(is_named(call, name) for name in names)]

    def replay(self):
        """Each call with the machine after it, which goes on to change: look at it at once."""
        machine = Machine()
        for call in self.all:
            try:
                machine.line(call.traced)
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
        other = self.runner.run(options)
        if other not in self.others:
            self.others.append(other)
        return other

    def where(self):
        """In words, which run this is."""
        gpus, machine, fail = self.options["gpus"], self.options.get("machine"), self.options.get("fail")
        words = f"on {gpus} simulated GPU{'s' if gpus > 1 else ''}"
        words += f", machine {machine}" if machine else ""
        words += ", with --strict" if self.options.get("strict") else ""
        words += ", with an importer that is slow" if self.options.get("slow_importer") else ""
        return words + (f", with --fail {fail}" if fail else "")

    def is_injected(self, call):
        """Whether it is the call that `fail` lets fail."""
        return f"{call.name}:{call.nth}" == self.options.get("fail", "").partition("=")[0]

    def wrong(self, wanted, happened):
        return Wrong(wanted, happened, run=self)

    # --- What holds in every lab

    def stopped(self):
        """The first thing that went wrong by itself, as a Wrong, or None."""
        return diagnosis.refusal(self) or diagnosis.wrong_end(self)

    def must_not_stop_at(self, *names):
        """Nothing of these stopped the program: calls that are refused, by name, or a "kernel" that faults."""
        wrong = self.stopped()
        if wrong and wrong.call and ("kernel" if wrong.call.fault else wrong.call.name) in names:
            raise wrong

    def must_end(self):
        if wrong := self.stopped():
            wrong.title = ENDED
            raise wrong

    def must_give_back(self):
        if wrong := self.leak():
            raise wrong

    def leak(self):
        """The first thing that was not given back, as a Wrong, or None. Who ends with 1 has failed, and need not."""
        for call, words in self.leaks() if self.status != 1 else ():
            wrong = call.wrong("at its end the program has given back all that it made", f"{call.name}: {words}")
            wrong.title = GIVEN_BACK
            return wrong
        return None

    def leaks(self):
        """What each process has not given back: (the call that made it, in words)."""
        return diagnosis.leaks(self)

    def must_look_at_answers(self, *names):
        """Each of these calls in the student's parts is made to fail once: the program then ends with status 1."""
        parts = self.parts()
        for call in {(call.name, call.line): call for call in reversed(self.calls(*names))}.values():
            if call.line not in parts:
                continue
            error = "cudaErrorUnknown" if call.name.startswith("cuda") else "CUDA_ERROR_UNKNOWN"
            self.again(fail=f"{call.name}:{call.nth}={error}", status=1).must_end_at_failure()

    def must_end_at_failure(self):
        """After the call that was made to fail it gives back at most, and ends with status 1."""
        failed = next((call for call in self.all if self.is_injected(call)), None)
        for call in self.all[failed.index + 1 :] if failed else ():
            if call.line and not call.name.startswith(AFTER_FAILURE):
                happened = f"its answer was not looked at: line {call.line} calls {call.name}"
                raise failed.wrong(f"the program ends with status 1 if {failed.name} answers {failed.result}", happened)
        if failed and self.ended.status != 1:
            happened = f"it ended with status {self.ended.status}"
            raise failed.wrong(f"the program ends with status 1 if {failed.name} answers {failed.result}", happened)

    # --- Places of the program that are no calls

    def ptx(self, kernel):
        """The instructions of a kernel and its labels, one text for each."""
        text = self.program.file.read_bytes().decode("latin-1")
        body = re.search(rf"\.entry \w*{kernel}\w*\([^)]*\)[^{{]*\{{(.*?)\n\}}", text, re.DOTALL)
        if not body:
            raise self.wrong(f"the kernel is called {kernel}, as it was", "there is no such kernel")
        code = re.sub(r"//.*|^\s*\{|\}\s*$", "", body[1], flags=re.MULTILINE)
        lines = (line.strip() for line in re.findall(r"[^;\n]+;|^[^;\n]+:$", code, re.MULTILINE))
        return [line for line in lines if not line.startswith(".")]

    def part(self, words):
        """The student's part whose mark has these words: a place of the file that is no call."""
        lines = self.program.source.read_text(errors="replace").splitlines()
        mark = next((at for at, line in enumerate(lines, 1) if "// >>>" in line and words in line), -1)
        return self.line_of_file(mark + 1)

    def parts(self):
        """The lines of the student's parts."""
        lines, inside, found = self.program.source.read_text(errors="replace").splitlines(), False, set()
        for at, line in enumerate(lines, 1):
            inside = (inside or "// >>>" in line) and "// <<<" not in line
            found |= {at} if inside else set()
        return found

    def line_of_file(self, line):
        """A place of the student's file."""
        return Call(self, len(self.all), line, {})


def is_named(call, name):
    return call.name.startswith(name[:-1]) if name.endswith("*") else call.name == name


def memory_under(machine, pid, address):
    """The mapping at an address of a process, or None."""
    _, mapping = machine.processes[pid].mappings.at(address)
    return mapping
