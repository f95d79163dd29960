# SPDX-License-Identifier: MIT-0
"""What the checks of a lab are written with.

A file labs/checks/NNx_name.py has the lab's TITLE, MINUTES, PAGE, OUTPUT and HINTS, and functions under @check("what
holds"), in the order in which they are to be told. Each takes a Run, and raises CheckFailed where something is wrong.
docs/contributing/labs.md has all of it.
"""

import dataclasses
import functools
import re
import signal
import types
from fnmatch import fnmatchcase

from labs.judge import diagnosis
from labs.judge.diagnosis import ENDED, GIVEN_BACK
from labs.judge.drawn import drawn
from labs.judge.program import CannotJudge
from vmmsim.trace import NO_CALLS, OF_MODULES, SUCCESS, Machine, number

NEVER = float("inf")
WAITS = "cudaDeviceSync", "cudaStreamSync", "cuCtxSync", "cuStreamSync"
AFTER_FAILURE = (  # what may follow a failure: giving back, and what belongs to that
    *(*diagnosis.GIVES_BACK, "cuMulticastUnbind"),
    *(*WAITS, "cudaSetDevice", "cuGetError", "cudaGet", "cudaPeek", *NO_CALLS),
)
NOT_LOOKED_AT = "Query", "LastError", "ErrorString", "ErrorName"  # ends of names: their answers are no failures
NO_ANSWER = "cudaLaunch", "cuLaunch"  # <<<>>> answers nothing
ERRORS = "OUT_OF_MEMORY INVALID_VALUE NOT_SUPPORTED ALREADY_MAPPED ILLEGAL_STATE SYSTEM_NOT_READY UNKNOWN".split()
ERRORS_OF_RUNTIME = "MemoryAllocation InvalidValue NotSupported Unknown".split()
SAYS_FAILED = {
    0: False,
    77: False,
    125: False,
    128 + signal.SIGABRT: True,
}  # statuses: 77 is a skip, 125 the simulator's
RESETS = "cudaDeviceReset", "cuDevicePrimaryCtxReset", "cuCtxDestroy"
COPIES = "cudaMemcpy*", "cuMemcpy*", "cudaMemset*", "cuMemset*", "cudaGraphL*", "cuGraphL*"
LAUNCHES = "cudaLaunchK*", "cudaLaunchC*", "cuLaunchK*", "cuLaunchC*"
PEER_ACCESS = "cudaDeviceEnablePeerAccess", "cuCtxEnablePeerAccess"
EXPORT, IMPORT = "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle"
DEVICE_TO_HOST, LOOK = 2, 64  # a kind of copy; bytes that are no data to speak of
NON_BLOCKING = 1  # cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING
OF_CALL = "pid nth device arguments result outputs changes explanation fault".split()  # what a line tells of it
OF_OPTIONS = {  # what is said of a run with them
    "machine": "machine {}",
    "memory": "with {} of memory each",
    "strict": "with --strict",
    "slow_importer": "where imports are slow and a sleep returns at once",
    "adversarial_timing": "where a sleep returns at once and a descriptor has other numbers",
    "late_kernels": "with kernels that begin late",
    "fail": "with --fail {}",
}


class CheckFailed(Exception):
    """What was to happen and what happened; with the call, if one is to blame, or the run, if it is not the check's."""

    def __init__(self, wanted, happened, call=None, run=None):
        super().__init__(wanted, happened)
        self.wanted, self.happened, self.call = wanted, happened, call
        self.run = call.run if call else run
        self.moment = call.index if call else NEVER
        self.title = ""  # of what holds in every lab, if it is about that
        self.is_in_full = False  # and needs no explanation of the call beside it


def check(title, page=None, points=1, kept=False, **options):
    """Marks a check, and says what holds if it raises nothing.

    Whoever fails it is led to `page`, or else to the lab's. It is worth so many points; if the starter is right there,
    and this is to be kept, not before another holds. Options are those of Run.again, for another run.
    """

    def mark(function):
        marked = functools.partial(function)  # one function may be the check of several labs
        marked.title, marked.page, marked.points, marked.kept, marked.options = title, page, points, kept, options
        return marked

    return mark


@dataclasses.dataclass(eq=False)
class Call:
    """A line of the trace, with its members: pid, nth, arguments and so on; `explanation` of a call that was refused,
    and `fault` ("where", "address", "why") of one that answers what a kernel or copy did wrong."""

    run: object
    index: int
    line: int  # of the student's file, which led to it; or 0
    traced: dict  # what model.Machine takes; empty of a place that is no call
    in_part: bool = False  # the line stands between the marks

    def __post_init__(self):
        self.name = self.traced.get("call", "")
        for member in OF_CALL:
            setattr(self, member, self.traced.get(member))

    @property
    def succeeded(self):
        return self.result in SUCCESS

    @property
    def is_students(self):
        """Whether it stands between the marks, or in no line of the file: there a thread does nothing but this call."""
        return not self.line or self.in_part

    def argument(self, *names):
        """A number: the argument that has one of these names; 0 of none."""
        return next((number(self.arguments[name]) or 0 for name in names if name in self.arguments), 0)

    @property
    def stream(self):
        return self.argument("stream", "hStream")

    @property
    def is_look(self):
        """Whether it copies a few elements to the host, as who looks at them does."""
        return 0 < self.argument("count", "ByteCount") <= LOOK and (
            self.name.startswith("cuMemcpyDtoH") or self.argument("kind") == DEVICE_TO_HOST
        )

    @property
    def is_count(self):
        """Whether it launches what counts for lab::count."""
        return re.match(r"(void )?lab::count_kernel\b", self.arguments.get("func", "")) is not None

    def repeats(self, other):
        """Whether it is the same call with the same arguments, whatever takes its outputs."""
        its = {name: value for name, value in self.arguments.items() if name not in (self.outputs or ())}
        return self.name == other.name and all(other.arguments.get(name) == value for name, value in its.items())

    def wrong(self, wanted, happened):
        return CheckFailed(wanted, happened, self)


@dataclasses.dataclass(eq=False)
class Kernel:
    """A kernel that began: `vmmsim --late-kernels` lets it wait until the program waits for it."""

    name: str
    parameters: list  # numbers; of what is larger its first 8 bytes
    launch: Call
    begin: Call  # the place in the trace
    waiter: Call  # the call that waited for it, or None: it began when its time was over

    @property
    def range(self):
        """(address, bytes) of what lab::fill or lab::count was given; None of other kernels."""
        found = re.match(r"void lab::(?:fill|count)_kernel<(char|int)>", self.name)
        return (self.parameters[0], self.parameters[1] * {"char": 1, "int": 4}[found[1]]) if found else None


@dataclasses.dataclass(eq=False)
class Run:
    """One run of a student's program on simulated GPUs: what it did and printed.

    gpus, machine, memory, fail, strict and late_kernels are vmmsim's options; status is the exit status that is right,
    and refusals are the names of calls that may be refused.
    """

    runner: object  # makes other runs of the program
    options: dict
    ended: object  # how it ended
    all: list = dataclasses.field(default_factory=list)  # calls
    is_disturbed: bool = False  # something else than calls stands among them
    others: list = dataclasses.field(default_factory=list)  # runs for which this one was not enough

    def __post_init__(self):
        self.program, self.status, self.stdout = self.runner.program, self.options.get("status", 0), self.ended.stdout

    @property
    def said(self):
        """What the program itself has written to stderr, the last lines of it."""
        lines = [line for line in self.ended.stderr.splitlines() if not line.startswith("vmmsim: ")]
        return self.program.at_lines_of_file("\n".join(lines[-20:]))

    def calls(self, *names):
        """The calls with these names that succeeded, in order; a name may end in *."""
        return [call for call in self.all if call.succeeded and any(fnmatchcase(call.name, name) for name in names)]

    def must_call(self, name, wanted):
        """The calls of this name; it fails if there are none."""
        if not (calls := self.calls(name)):
            raise self.wrong(wanted, f"{name.removesuffix('*')} was not called")
        return calls

    @functools.cached_property
    def launches(self):
        """Those of main, outside the student's parts."""
        return [call for call in self.calls(*LAUNCHES) if not call.is_students]

    @property
    def streams_aside(self):
        """The streams that do not wait for the default stream, nor it for them."""
        made = [call for call in self.calls("*StreamCreate*") if call.argument("flags", "Flags") == NON_BLOCKING]
        return {number(stream) for call in made for stream in call.outputs.values()}

    @property
    def main(self):
        """What MAINS of the lab says of the main that ran: its constants, by name."""
        return types.SimpleNamespace(**self.program.mains[self.options.get("main", 0)])

    @functools.cached_property
    def kernels(self):
        """Each Kernel that began, in order."""
        by_name = {(call.pid, f"{call.name} #{call.nth}"): call for call in self.all}
        return [
            Kernel(
                begin.arguments["func"],
                [number(value) for value in begin.arguments["parameters"]],
                by_name.get((begin.pid, begin.arguments["launch"]), begin),
                begin,
                by_name.get((begin.pid, begin.arguments["waiter"])),
            )
            for begin in self.calls("begin")
        ]

    def work(self):
        """What main lets lab::fill and lab::count do, outside the student's parts: each (Kernel, machine, mappings).

        The machine is that at its beginning. It raises CheckFailed unless all that a kernel got lies in mappings,
        each of memory of its own.
        """
        begun = {kernel.begin: kernel for kernel in self.kernels if kernel.range and not kernel.launch.is_students}
        for call, machine in self.replay():
            if kernel := begun.get(call):
                found = mappings_under(machine, call.pid, *kernel.range)
                address, size = kernel.range
                if not found:
                    raise kernel.launch.wrong(
                        "the kernel uses memory that cuMemCreate made and cuMemMap mapped, and no other",
                        f"{size} bytes at {address:#x} were used, and not all of them are mapped",
                    )
                if sum(memory.size for memory in {mapping.memory for mapping in found}) < size:
                    raise kernel.launch.wrong(
                        "each part of what the kernel uses is memory of its own",
                        "the same memory is mapped at several addresses of it: a write at one changes the others",
                    )
                yield kernel, machine, found

    def must_work(self, *gpus):
        """main's kernels run on these GPUs in turn, in memory of GPU 0 that GPU 0 may read and write, and no other."""
        self.must_open_to(*gpus)
        done = []
        for kernel, _, mappings in self.work():
            for mapping in mappings:
                place, right = place_of(mapping.memory.device), mapping.access.get(0)
                if place != "GPU 0":
                    raise kernel.launch.wrong("the memory is on GPU 0", f"it is memory of {place}")
                if right != 3:
                    wanted = "before the kernel runs, cuMemSetAccess grants GPU 0 to read and write"
                    nobody = "it is mapped, and GPU 0 may not read and write it: a mapping grants nobody access"
                    raise kernel.launch.wrong(wanted, "GPU 0 may only read it" if right else nobody)
            done.append(kernel.begin.device)
        if done != [*gpus]:
            happened = f"{len(done)} ran" if len(done) != len(gpus) else "they ran on others"
            raise self.wrong(f"main's {len(gpus)} kernels run, on GPUs {', '.join(map(str, gpus))}", happened)

    def must_open_to(self, *gpus):
        """No call grants access to another GPU than these."""
        for call in self.all:
            for change in call.changes:
                if change["kind"] == "access" and change["flags"] and change["device"] not in gpus:
                    allowed = " and ".join(map(place_of, sorted({*gpus})))
                    happened = f"{place_of(change['device'])} may use the memory as well"
                    raise call.wrong(f"{allowed} may use the memory, and no other", happened)

    def ordinary_memory(self):
        """The calls that made memory which is not of VMM."""
        calls = [call for call in self.calls("*") if not call.name.startswith(OF_MODULES)]
        made = [call for call in calls if any(change["kind"] == "allocate" for change in call.changes)]
        return made or self.calls("cudaHostRegister", "cuMemHostReg*")

    def created(self):
        """The calls that created memory, of VMM or not."""
        ordinary = [call for call in self.ordinary_memory() if "Register" not in call.name]
        return sorted(self.calls("cuMemCreate") + ordinary, key=lambda call: call.index)

    def copies(self, launches=False):
        """The calls of the student that copy or write data; and launches, if one asks, of what is not lab::count."""
        counted = {call.arguments["symbol"] for call in self.calls("cudaGetSymbolAddress")[:1]}  # lab::begin asks
        for call in self.calls(*COPIES, *(LAUNCHES if launches else ())):
            is_look = call.arguments.get("symbol") in counted or call.is_count or call.is_look
            if call.is_students and not is_look:
                yield call

    def replay(self):
        """Each call with the machine after it, which goes on to change: look at it at once."""
        machine = Followed()
        for call in self.all:
            if call.name in RESETS and call.succeeded:
                happened = f"{call.name} destroys all that is left on the GPU, whatever it is; leave it out"
                wrong = call.wrong("each thing is given back by the call that undoes it", happened)
                wrong.title = GIVEN_BACK
                raise wrong
            try:
                machine.line(call.traced)
            except (AssertionError, KeyError, TypeError, ValueError, StopIteration, AttributeError) as error:
                words = "what the record tells of it does not fit what it told before: the judge has a mistake, or the"
                words += f" program changed the record, and this says nothing of your file ({error})"
                raise CannotJudge(f"line {call.line}, {call.name}: {words}") from None
            yield call, machine

    def machine_after(self, call):
        return next(machine for each, machine in self.replay() if each is call)

    def again(self, **options):
        """Another run, such as again(gpus=2) or again(fail="cuMemCreate:2=CUDA_ERROR_OUT_OF_MEMORY", status=1).

        It too has to end as it should and to give all back; that is looked at when the check is through. This run must
        have done so before the other begins.
        """
        options = self.options | options
        if options == self.options:
            return self
        self.must_be_through()
        other = self.runner.run(options)
        if other not in self.others:
            self.others.append(other)
        return other

    def ended_with(self, **options):
        """Another run, which has to end as it should, and may keep what it has made: it exits on an error."""
        other = self.runner.run(self.options | options)
        other.must_end()
        return other

    def where(self):
        """In words, which run this is."""
        its, gpus = self.options, self.options["gpus"]
        words = [text.format(its[name]) for name, text in OF_OPTIONS.items() if its.get(name)]
        words += [getattr(self.main, "words", "with other sizes in main")] if its.get("main") else []
        return ", ".join([f"on {gpus} simulated GPU{'s' if gpus > 1 else ''}", *words])

    def is_injected(self, call):
        """Whether it is the call that `fail` lets fail."""
        fail = self.options.get("fail", "").partition("=")[0].replace("+", "")
        return fail in (f"{call.name}:{call.nth}", self.named(call))

    def named(self, call):
        """A call as `vmmsim --fail` takes it."""
        processes = [*dict.fromkeys(one.pid for one in self.all if one.name not in NO_CALLS)]
        which = f"@{processes.index(call.pid) + 1}" if len(processes) > 1 and call.pid in processes else ""
        return f"{call.name}:{call.nth}{which}"

    def wrong(self, wanted, happened):
        return CheckFailed(wanted, happened, run=self)

    # --- What holds in every lab

    def stopped(self):
        """The first thing that went wrong by itself, as a CheckFailed, or None."""
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
        if wrong := diagnosis.leak(self):
            raise wrong

    def must_be_through(self):
        """Before other runs tell anything. A leak hinders none of them, where each check is looked at by itself."""
        self.must_end()
        if not self.runner.takes_each_by_itself:
            self.must_give_back()

    def must_not_enable_peers(self):
        for call in self.all:
            if call.name in PEER_ACCESS:
                happened = f"{call.name} was called: it grants access to memory of cudaMalloc, and to none of VMM"
                raise call.wrong("descriptors of cuMemSetAccess grant access, to one mapping", happened)

    def must_do_as_well(self):
        """It ends as it should, and prints what `prints` of this main has."""
        if wrong := self.stopped():
            raise wrong
        if not self.stdout.startswith(self.main.prints):
            raise self.wrong(f"it prints\n{self.main.prints}", f"it printed\n{self.stdout}")

    def must_create_once(self):
        for call in self.created()[1:]:
            raise call.wrong("the importer uses the memory of the exporter", f"{call.name} made more memory")

    def must_import(self):
        """What another process than the exporter tried to import, or did; it fails if that is nothing."""
        exporter = self.must_call(EXPORT, "the exporter exports its memory")[0].pid
        tried = [call for call in self.all if call.name == IMPORT and call.pid != exporter]
        if not tried:
            raise self.wrong("the importer, another process, imports the memory", "nobody there imported it")
        return tried

    def must_read_in_importer(self):
        """The launches of another process than the exporter; it fails if there are none."""
        exporter = self.must_call(EXPORT, "the exporter exports its memory")[0].pid
        reads = [call for call in self.calls("cudaLaunchKernel") if call.pid != exporter]
        if not reads:
            raise self.wrong("a kernel of the importer reads the memory", "it ran none")
        return reads

    def must_look_at_answers(self):
        """Of the driver's calls of each name in each line of the student's the first, the last and one in between are
        made to fail; then one of each name in another main. The program says so each time, and ends. What it holds may
        be left: its end frees that."""
        draw = drawn("answers")
        for calls in self.by_name_and_line().values():
            between = draw.sample(calls[1:-1], 1) if calls[2:] else []
            for call in {calls[0]: 0, **dict.fromkeys(between), calls[-1]: 0}:
                self.must_end_at_failure(failure_of(self, call, draw))
        others = [at for at, main in enumerate(self.program.mains) if at and not {"prints", "fail"} & {*main}]
        for at in draw.sample(others, min(1, len(others))):
            other, of_name = self.runner.run(self.options | {"main": at}), {}
            if not other.is_right():
                return  # which has a check of its own
            for (name, _), calls in other.by_name_and_line().items():
                of_name.setdefault(name, []).extend(calls)
            for calls in of_name.values():
                other.must_end_at_failure(failure_of(other, draw.choice(calls), draw))

    def by_name_and_line(self):
        """The student's calls of the driver that answer whether they failed."""
        found = {}
        for call in self.calls("cu*"):
            if call.is_students and not call.name.endswith(NOT_LOOKED_AT) and not call.name.startswith(NO_ANSWER):
                found.setdefault((call.name, call.line), []).append(call)
        return found

    def must_end_at_failure(self, fail, says=""):
        """After the call that is made to fail it gives back at most, tells of it in these words, and ends with a status
        that is neither 0 nor 77, or by an exception. Or it makes this call once more, does all that is to be done, and
        does as above where the call fails from then on.
        """
        self.must_be_through()
        run = self.runner.run(self.options | {"fail": fail, "adversarial_timing": False})  # as nothing is waited for
        failed, is_for_ever = next((call for call in run.all if run.is_injected(call)), None), "+" in fail
        if not failed:
            wanted = "the program makes the same calls in each run"
            raise run.stopped() or self.wrong(wanted, f"it did not call {fail.partition(':')[0]} as often as before")
        wanted = (
            f"if {failed.name} answers {failed.result}, the program tells of it and ends with status 1, as by CHECK"
        )
        for call in run.all[failed.index + 1 :]:
            is_other = call.traced["thread"] != failed.traced["thread"] or not call.line
            is_question = call.in_part and call.name.endswith("MemGetInfo")
            if is_other or is_question or call.repeats(failed) and is_for_ever:
                continue
            if call.repeats(failed) and run.is_right() and run.stdout == self.stdout:
                nth = f":{failed.nth}"  # who asks once more gives up if it is in vain
                return self.must_end_at_failure(fail.replace(nth, f"{nth}+", 1), says)
            if not call.name.startswith(AFTER_FAILURE):
                raise failed.wrong(wanted, f"its answer was not looked at before line {call.line} calls {call.name}")
        if is_for_ever and run.ended.why:
            raise failed.wrong(f"where {failed.name} is refused again and again, it ends", "it did not end by itself")
        ends = [call.argument("status") for call in run.calls("exit") if call.pid == failed.pid]
        status = ends[0] if ends else run.ended.status  # of its process, whatever main makes of that
        status = -status + 128 if status < 0 else status
        told = run.said + ("" if self.stdout.startswith(run.stdout) else run.stdout)
        if run.ended.why or not SAYS_FAILED.get(status, status < 128):
            raise failed.wrong(wanted, diagnosis.how_it_ended(run) or f"it ended with status 0, and said:\n{told}")
        if not told or says not in told:
            happened = f"it ended with status {run.ended.status}, and said {told or 'nothing'}"
            raise failed.wrong(wanted, happened)
        its = [call for call in run.all[failed.index + 1 :] if call.pid == failed.pid and not call.succeeded]
        later = next((call for call in its if call.name in told), None)
        if later and failed.name not in told and failed.result not in told:
            raise failed.wrong(wanted, f"what it tells of is {later.name} in line {later.line}, which fails after it")

    def is_right(self):
        """Whether it ends as it should, and gives all back."""
        return not self.stopped() and not diagnosis.leak(self)

    # --- Places of the program that are no calls

    def part(self, words, function=""):
        """The student's part whose mark has these words, or a function in it: a place of the file that is no call."""
        return self.line_of_file(self.program.line_of_part(words, function))

    def line_of_file(self, line):
        """A place of the student's file."""
        return Call(self, len(self.all), line, {}, in_part=True)


class Followed(Machine):
    """The machine of a program that may call what the model's table has not, and call in vain, as cuMemUnmap where
    nothing is mapped: the simulator knows what a call has changed."""

    def demand(self, right, what):
        pass

    def line(self, line):
        if line["changes"] or line["call"] in NO_CALLS:
            super().line(line)


def failure_of(run, call, draw):
    """What lets this call fail by an error that is drawn, as `vmmsim --fail` takes it."""
    is_of_runtime = call.name.startswith("cuda")
    error = f"cudaError{draw.choice(ERRORS_OF_RUNTIME)}" if is_of_runtime else f"CUDA_ERROR_{draw.choice(ERRORS)}"
    return f"{run.named(call)}={error}"


def memory_under(machine, pid, address):
    """The mapping at an address of a process, or None."""
    _, mapping = machine.processes[pid].mappings.at(address)
    return mapping


def mappings_under(machine, pid, address, size):
    """The mappings in which a range lies, in order; none if a part of it lies in none."""
    found, at = [], address
    while at < address + size:
        base, mapping = machine.processes[pid].mappings.at(at)
        if not mapping:
            return []
        found.append(mapping)
        at = base + mapping.size
    return found


def place_of(device):
    """In words, where memory lies."""
    return f"GPU {device}" if device >= 0 else "the host"
