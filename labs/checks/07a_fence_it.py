# SPDX-License-Identifier: MIT-0
"""07a: a barrier lets threads wait for one another; it does not order accesses through two aliases.

One machine is enough: main makes the memory, one granule of GPU 0, and the part is what each thread does.
"""

import dataclasses
import operator
import re

from labs.judge.check import Wrong, check

TITLE = "Fence it"
MINUTES = 10
PAGE = "07_aliasing/README.md#6-put-a-fence-between"
HINTS = [
    "No two threads use the same element. So what does a thread gain if it waits for the others at a barrier?",
    "A and B are two addresses of the same memory. The first read through B may leave a copy in a cache, under the "
    "address in B, and a write through A does not change that copy. Look for what orders accesses through two aliases.",
    "It is one PTX instruction, fence.proxy.alias. In C++ it is cuda::ptx::fence_proxy_alias(), and the program has "
    "included <cuda/ptx> for it. It stands after the write and before the second read, in place of the barrier.",
]


def OUTPUT(main):
    return f"""\
first read: {main.threads} of {main.threads} old
second read: {main.threads} of {main.threads} new
0 KiB are not given back
OK
"""


KERNEL = "read_write_read"
A, B, SECOND = 0, 1, 3  # among its parameters
THREADS = 1024
NOT_YET = "read B, write A, fence.proxy.alias, read B: in this order, in every thread"


def launches(run):
    found = [call for call in run.calls("cudaLaunch*", "cuLaunch*") if KERNEL in call.arguments.get("func", "")]
    if not found:
        raise Wrong(f"the kernel {KERNEL} is launched", "it was not launched", run=run)
    return found


@check("no thread reads the old value after it has written")
def nothing_stale(run):
    launched = launches(run)
    run.must_end()
    found = re.search(r"^second read: (\d+) of 1024 new$", run.stdout, re.MULTILINE)
    if not found:
        raise Wrong("it prints how many threads read the new value", f"it printed\n{run.stdout}", run=run)
    if int(found[1]) < 1024:
        raise launched[0].wrong(
            "the second read through B returns what the thread wrote through A, in all 1024 threads",
            f"{1024 - int(found[1])} threads read the old value: a barrier does not order accesses through two "
            "aliases, and a fence orders those of the thread that executes it",
        )


@check("one launch reads, writes and reads again")
def one_launch(run):
    for call in run.calls("cudaLaunch*", "cuLaunch*"):
        name = call.arguments.get("func", "")
        if "lab::" not in name and call is not launches(run)[0]:
            raise call.wrong("all of it happens in one launch", "another kernel was launched")
    for call in run.calls("cudaMemcpy*", "cuMemcpy*", "cudaMemset*", "cuMemset*"):
        if "Symbol" not in call.name:  # what lab::count uses
            raise call.wrong("the threads themselves read the new value", f"{call.name} was called")


@check("one allocation is mapped at A and at B when the kernel runs")
def mapped_twice(run):
    first = launches(run)[0]
    for call, machine in run.replay():
        if call.index != first.index:
            continue
        mappings = list(machine.processes[call.pid].mappings.values())
        if len(mappings) != 2 or mappings[0].memory is not mappings[1].memory:
            raise call.wrong("A and B are two mappings of one allocation", "they are not, when the kernel runs")


@check("the alias fence stands between the write through A and the read through B")
def fenced(run):
    code, place = run.ptx(KERNEL), run.part("order the write through A")
    if not any("fence.proxy.alias" in text for text in code):
        raise place.wrong(
            NOT_YET, "the kernel has no fence.proxy.alias; that the result is right on this GPU is luck, and no promise"
        )
    for thread in range(THREADS):
        try:
            steps = Thread(code, thread).steps
        except (CannotFollow, KeyError, IndexError, TypeError, ValueError) as error:
            what = f" ({error})" if isinstance(error, CannotFollow) else ""
            happened = f"the kernel does more{what} than the judge can follow: leave out what orders nothing"
            raise place.wrong(NOT_YET, happened) from None
        if happened := not_in_order(steps, 4 * thread):
            raise place.wrong(NOT_YET, f"thread {thread}: {happened}")
        if len(steps) > 100 and thread >= 64:  # loops: a few of the threads are enough
            break


def not_in_order(steps, own):
    """What a thread, whose element lies at the offset `own`, does wrong, or ""."""
    for step in steps:
        if step.what == "st" and step.to == B:
            return "it writes through B, too: then it reads what it has written there"
        if step.what == "st" and step.to == A and step.offset != own:
            return "it writes an element that another thread reads"
    told = [step for step in steps if (step.what, step.to, step.offset) == ("st", SECOND, own)]
    if not told or not told[-1].loads:
        return "second[i] gets something else than what was read"
    for at in told[-1].loads:
        if (steps[at].to, steps[at].offset) != (B, own):
            return "the second read goes through A: one address alone is used after the write"
        written = [which for which, step in enumerate(steps[:at]) if (step.what, step.to) == ("st", A)]
        if not written or not any(step.what == "fence" for step in steps[written[-1] : at]):
            return "no fence stands between its last write through A and the second read through B"
    return ""


class CannotFollow(Exception):
    pass


@dataclasses.dataclass
class Step:
    """What a thread does to global memory, or the fence. `to` is the parameter that its address began with."""

    what: str  # "ld", "st", "fence"
    to: int = -1
    offset: int = 0
    loads: frozenset = frozenset()  # of a store: the numbers of the loads that its value comes from


SPECIAL = {"%ntid.x": THREADS, "%ntid.y": 1, "%ntid.z": 1, "%nctaid.x": 1, "%nctaid.y": 1, "%nctaid.z": 1}
COMPARED = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
COMPUTED = {
    **{name: lambda a, *_: a for name in ("mov", "cvt", "cvta")},
    **{"add": operator.add, "sub": operator.sub, "mul": operator.mul, "mad": lambda a, b, c: a * b + c},
    **{"and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift},
    **{"min": min, "max": max, "not": operator.inv, "neg": operator.neg, "rem": operator.mod, "div": operator.floordiv},
    "selp": lambda a, b, wanted: a if wanted else b,
}
PASSED = "bar", "barrier", "membar", "fence", "nanosleep", "prefetch", "pragma"  # change no register and no memory


class Thread:
    """Follows one thread of the one block through the instructions: conditions and loops are taken as it takes them."""

    def __init__(self, code, thread):
        self.thread, self.steps, self.registers, self.seen = thread, [], {}, {}
        labels = {text[:-1]: at for at, text in enumerate(code) if text.endswith(":")}
        at = taken = 0
        while at < len(code):
            predicate, opcode, operands = re.fullmatch(
                r"(?:@(!?%\w+)\s+)?(\S+?)(?:\s+(.*?))?\s*[;:]", code[at]
            ).groups()
            at, taken = at + 1, taken + 1
            if taken > 100_000:
                raise CannotFollow("a loop without an end")
            if predicate and self.value(predicate.lstrip("!"))[0] == predicate.startswith("!"):
                continue
            if opcode in ("ret", "exit", "trap"):
                return
            if opcode.startswith("bra"):
                at = labels[operands]
            elif not code[at - 1].endswith(":"):
                self.do(opcode, re.split(r",\s*(?![^\[{]*[\]}])", operands or ""))

    def value(self, text):
        """(the number, the loads that it comes from) of a register or a constant."""
        if text in self.registers:
            return self.registers[text]
        if text.startswith("%"):
            return {"%tid.x": self.thread, "%laneid": self.thread % 32, **SPECIAL}.get(text, 0), frozenset()
        return int(text, 0), frozenset()

    def place(self, text):
        """(parameter, offset) of an address in brackets."""
        register, _, more = text.strip("[]").partition("+")
        nth, offset = divmod(self.value(register)[0] + int(more or 0), 1 << 40)
        return nth - 1, offset

    def do(self, opcode, operands):
        name, *kinds = opcode.split(".")
        if opcode == "fence.proxy.alias":
            self.steps.append(Step("fence"))
        elif opcode.startswith("ld.param"):
            nth = int(re.search(r"_param_(\d+)", operands[1])[1])
            self.registers[operands[0]] = (nth + 1) << 40, frozenset()  # none is a null pointer
        elif name in ("ld", "ldu"):
            to, offset = self.place(operands[1])
            seen = self.seen.get(offset, 7) if to in (A, B) else 0
            self.registers[operands[0]] = seen, frozenset([len(self.steps)])
            self.steps.append(Step("ld", to, offset))
        elif name in ("st", "red", "atom"):
            to, offset = self.place(operands[name == "atom"])
            value, loads = self.value(operands[1]) if name == "st" else (0, frozenset())
            self.steps.append(Step("st", to, offset, loads))
            if to == A:
                self.seen[offset] = value
        elif name == "setp":
            left, right, *also = (self.value(each) for each in operands[1:])
            signed = [number_of(each[0], kinds[-1]) for each in (left, right)]
            self.registers[operands[0]] = holds(kinds, *signed, *(each[0] for each in also)), frozenset()
        elif name in COMPUTED:
            values = [self.value(each) for each in operands[1:]]
            signed = [int(number_of(value, kinds[-1])) for value, _ in values]
            bits = 64 if "wide" in kinds or kinds[-2 if name == "cvt" else -1].endswith("64") else 32
            result = int(COMPUTED[name](*signed)) & (1 << bits) - 1
            self.registers[operands[0]] = result, frozenset().union(*(loads for _, loads in values))
        elif name not in PASSED:
            raise CannotFollow(opcode)


def number_of(value, kind):
    """The number that a register's bits are of a kind such as s32."""
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    value = int(value) & (1 << bits) - 1
    return value - (1 << bits) if kind.startswith("s") and value >> (bits - 1) else value


def holds(kinds, left, right, also=None):
    compare, *combined = kinds[:-1]
    if compare not in COMPARED or combined not in ([], ["and"], ["or"]):
        raise CannotFollow(f"setp.{'.'.join(kinds)}")
    result = COMPARED[compare](left, right)
    return (result and also if combined == ["and"] else result or also) if combined else result
