# SPDX-License-Identifier: MIT-0
"""From recordings to frames, of programs that were never run: frames_test.py

Whatever a recording tells, each call has a frame, of a bounded size and within a bounded time.
"""

import html
import json
import random
import re
import time

import pytest

from vmmsim.testing import sample
from vmmsim.testing.sample import BASE, MIB, Writer, checked_steps, read
from vmmsim.view.callers import Callers
from vmmsim.view.engine import pictures
from vmmsim.view.frames import notes, steps
from vmmsim.view.owners import Owners
from vmmsim.view.page import about, drawn, page
from vmmsim.view.pictures import of_steps
from vmmsim.view.sizes import size_text


def texts(step):
    """What a frame says."""
    return " ".join(html.unescape(text) for text in re.findall(r">([^<]*)</text>", "".join(step.svg)))


def marked(step, mark):
    return sum(f"vmm-{mark}" in element for element in step.svg)


@pytest.mark.parametrize(("size", "seconds"), [(5, 4), (1, 10)], ids=["a_fifth", "full_size"])
def test_many_calls_take_seconds(subtests, size, seconds):
    late = Writer()
    handle, _ = late.create(64 * MIB)
    for nth in range(25_000 // size):
        if nth == 24_000 // size:
            late.create(8192 * MIB)
            late.release(handle)
        late.launch()
    for name, writer, said in (
        ("all change something", sample.chunks(1000 // size, stay=False), f"{size_text(2000 // size * MIB)} at step"),
        ("a buffer that grows", sample.chunks(700 // size, stay=True), f"{size_text(1400 // size * MIB)} at step"),
        ("segments", sample.segments(300 // size, 25_000 // size), "launches from step"),
        ("late", late, rf"8.06 GiB at step {24_000 // size + 2}<.*>8 GiB</a> \(8 GiB mapped nowhere\)"),
    ):
        with subtests.test(name):
            recording = writer.recording()
            began = time.process_time()
            found = steps(recording)
            text = page(recording, found)
            assert time.process_time() - began < seconds
            assert len(found) == len(writer.lines)
            assert len(text) < 1e6
            assert re.search(said, text)


def test_a_crowd_counts_each_once_and_shows_the_largest():
    above, _, below = texts(checked_steps(sample.crowd().recording(), most=20)[-1]).rpartition("GPU 0 ")
    assert "1 GiB #18 1 GiB #18" in above
    assert below == (  # 13, 100 and 27 of 140; and of 2784 MiB all
        "2.72 GiB by VMM 58 MiB #5 handle 72 MiB #6 handle 62 MiB #11 handle 76 MiB #12 handle "
        "66 MiB #17 handle 1 GiB #18 handle 56 MiB #22 handle 70 MiB #23 handle 60 MiB #28 handle 74 MiB #29 handle "
        "64 MiB #34 handle 78 MiB #35 handle 68 MiB #40 handle 100 × 2 MiB #41–#140 handles … and 27 "
        "more, 756 MiB created, not mapped"
    )


def test_what_crosses_and_what_is_named_is_shown_first():
    writer = sample.shared_among(40)
    named = {"ptr": hex(BASE + (3 << 32)), "location": {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": 0}}
    writer.call("cuMemGetAccess", named, {"flags": 3})
    at_launch, asked = map(texts, checked_steps(writer.recording(), most=20)[-2:])
    assert "R1: 2 MiB reserved 2 MiB #1" in at_launch
    assert "access GPU 0–1 read-write" in at_launch
    assert "Across processes: process 2 may use 2 MiB of process 1" in at_launch
    assert ("R3: " in at_launch, "R3: 6 MiB reserved 6 MiB #3" in asked) == (False, True)
    writer = Writer()  # each allocation is mapped for its own GPU, and again for the other one
    for nth in range(1, 21):
        handle, _ = writer.create(2 * nth * MIB)
        for gpu in 0, 1:
            at = BASE + (2 * nth + gpu << 32)
            writer.reserve(at, 2 * nth * MIB)
            writer.map(at, 2 * nth * MIB, handle)
            writer.access([(at, 2 * nth * MIB)], gpu=gpu)
    writer.launch()
    shown = texts(checked_steps(writer.recording(), most=20)[-1])
    assert ("access GPU 1 read-write" in shown, "GPU 0 read-write" in shown) == (True, False)


def test_sixteen_processes_are_drawn():
    recording = sample.ranks(16).recording()
    found = checked_steps(recording)
    assert {step.process for step in found} == set(range(16))
    assert "Process 16: cuMemSetAccess" in found[-1].words
    assert "process 16" in texts(found[-1])
    assert "process 7: 1 reservation, 4 MiB mapped" in texts(found[-1])
    imported = next(step for step in found if step.call == "cuMemImportFromShareableHandle")
    assert "allocation #1 (2 MiB of GPU 0), which process 1 exported" in imported.words


def test_an_import_is_told_of_its_export_where_nothing_else_is_meant():
    """It is told where nothing else can be meant. An older recorder counted the records of each process, and had an
    import for the process's own that came with the number of a descriptor that this had exported once."""
    unknown = {"size": None, "device": None, "record": None, "multicast": None}

    def told(size, gpu, imported=unknown, exported_as=None, imported_as=None):
        """In words, of an import: processes 1 and 2 have made and exported memory, and process 1 imports."""
        writer = Writer()
        for pid, its_size, its_gpu in ((1, 2 * MIB, 0), (2, size, gpu)):
            handle, _ = writer.create(its_size, its_gpu, pid=pid)
            writer.lines[-1]["changes"][0]["record"] = 0
            writer.export(handle, pid, **({"identity": exported_as} if exported_as and pid == 2 else {}))
        taken = writer.take(imported, 1, **({"identity": imported_as} if imported_as else {}))
        writer.reserve(BASE, size)
        writer.map(BASE, size, taken)
        found = checked_steps(writer.recording())
        assert "contradicts" not in "".join(step.words for step in found)
        is_known = "process 2 exported" in found[4].words
        assert is_known != ("of which export, the recording does not tell" in found[4].words)
        assert [marked(found[-1], "hatch") > 2, "source not known" in texts(found[-1])] == [not is_known] * 2
        return is_known

    own = {"size": 2 * MIB, "device": 0, "record": 0, "multicast": False}
    assert not told(2 * MIB, 0)
    assert not told(2 * MIB, 0, own)
    assert told(4 * MIB, 1, own)
    assert told(4 * MIB, 0)
    assert not told(2 * MIB, 1)
    assert told(2 * MIB, 1, {**unknown, "device": 1})
    assert told(2 * MIB, 0, exported_as="0x101", imported_as="0x101")
    assert not told(4 * MIB, 0, exported_as="0x101", imported_as="0x102")


def test_who_called_is_told_by_short_names():
    """Each function that led to a call, by a short name; what only passes it on is counted."""
    writer = Writer(places={"a.so+0x1": [["", 0, "c10::cuda::(anonymous namespace)::Pool<int>::map(void*, int)"]]})
    for offset, name in enumerate(("at::_ops::ones::call(long)", "_PyEval_EvalFrameDefault", "own::run(int)"), 2):
        writer.about["places"][f"a.so+{offset:#x}"] = [["", 0, name]]
    writer.about["places"]["/home/me/own.py:7:main"] = [["own.py", 7, "main"]]
    writer.launch()
    modules = [f"{caller}.so+0x{offset}" for caller, offset in zip("aabaa", (1, 2, 9, 3, 4), strict=True)]
    writer.lines[0]["callers"] = [*modules, "/home/me/own.py:7:main"]
    callers = Callers(writer.recording())
    stack = callers.stacks[callers.of(writer.lines[0])]
    for modules, library in (
        (("libcudart.so.13", "libcublas.so.13", "app"), "libcublas.so.13"),
        (("app", "libc.so.6", "libx.so"), ""),
        (("libffi.so.8", "_ctypes.cpython-312-x86_64-linux-gnu.so", "python3.12"), ""),
        (("saver.abi3.so", "libffi.so.8"), "saver.abi3.so"),
    ):
        its = [*(f"{module}+0x1" for module in modules), "/home/c++/own.py:7:main"]
        assert callers.libraries[callers.of({"callers": its})] == library
    told = [("Pool::map", "a.so"), ("", "3 more in a.so, b.so"), ("own::run", "a.so"), ("main", "own.py:7")]
    assert [list(callers.numbers)[number] for number in stack] == told
    package = "/opt/lib/python3.12/site-packages/nn.py:3:forward"
    writer.about["places"] |= {package: [["nn.py", 3, "forward"]], "app+0x5": [["", 0, "own::run(int)"]]}
    owners = Owners(writer.recording())
    for thread, callers, owner in (  # the program's own line
        (1, ["a.so+0x1", package, "/home/me/own.py:7:main"], "own.py:7 in main"),
        (2, ["b.so+0x9", "app+0x5"], "own::run in app"),  # which is no line of the main thread
        (2, ["a.so+0x1"], "Pool::map in another thread, main thread last at own.py:7 in main"),
        (1, ["b.so+0x9", "app+0x5"], "own::run in app"),
        (1, ["b.so+0x9"], "b.so"),
    ):
        assert owners.of({**writer.lines[0], "thread": thread, "callers": callers}) == owner


def test_what_is_not_recorded_is_said_of_recordings_alone():
    """The recorder tells of modules and of no copies; the simulator of copies."""
    writer = Writer()
    writer.launch()
    recorded = json.dumps({"module": "a.so", "path": "/lib/a.so"}) + "\n" + writer.text()
    assert "1 call; copies are not recorded." in about(read(recorded))
    assert "1 call." in about(writer.recording())
    for where in "1 simulated GPU", "1 H200":
        for line in writer.lines:
            line["time"] = 5
        writer.about["where"] = where
        times_are = "; the times are the simulator's, not a GPU's."
        assert html.unescape(about(writer.recording())).endswith(times_are) == ("simulated" in where)


def test_a_picture_does_not_depend_on_those_before():
    """What nothing has happened to is not made anew: in whatever order, each is as one that is drawn alone."""
    few = sample.chunks(5, stay=False)
    few.launch()
    for writer in few, sample.segments(30, 200), sample.ranks(3), sample.crowd():
        found = steps(writer.recording())
        numbers = list(range(1, len(found), max(1, len(found) // 5)))
        random.Random(1).shuffle(numbers)
        numbers = [each for number in numbers for each in (number, number + 1, number)]
        alone = {number: of_steps(found, [number])[0] for number in set(numbers)}
        assert of_steps(found, numbers) == [alone[number] for number in numbers]


def test_memory_that_was_unbound_goes_while_the_object_stays():
    writer = Writer()
    memory, _ = writer.create(2 * MIB)
    made = {"kind": "multicast_create", "handle": "0x20", "size": 2 * MIB, "devices": 1, "record": 2}
    writer.call("cuMulticastCreate", {}, {"mcHandle": "0x20"}, made)
    writer.call("cuMulticastAddDevice", {}, {}, {"kind": "add_device", "handle": "0x20", "device": 0})
    part = {"handle": "0x20", "offset": 0, "size": 2 * MIB, "device": 0}
    writer.call("cuMulticastBindMem", {}, {}, {"kind": "bind", **part, "memory": memory, "memory_offset": 0})
    writer.release(memory)
    writer.call("cuMulticastUnbind", {}, {}, {"kind": "unbind", **part})
    found = checked_steps(writer.recording())
    assert "contradicts" not in "".join(step.words for step in found)
    assert [memory.steps for memory in found.lives.packed()["memory"]] == [[1, 6], [2]]


def test_contradictions_are_told_and_the_frames_go_on():
    writer = Writer()
    writer.map(BASE, 2 * MIB, "0x77")  # neither was the handle made nor the addresses reserved
    writer.access([(BASE, 2 * MIB)])
    writer.access([(BASE + 64 * MIB, 2 * MIB)])  # nothing is mapped there
    writer.reserve(BASE + MIB, 4 * MIB)  # where something is
    writer.unmap(BASE, 2 * MIB)
    writer.release("0x78")
    writer.free(BASE + 1024 * MIB, MIB)
    writer.deallocate(0x5000)
    writer.call("cuMemMap", {"ptr": hex(BASE)})  # succeeds, and changes nothing
    writer.call("cuMemMap", {}, {}, {"kind": "map"})
    writer.call("cuMemMap", {"ptr": []}, {"x": {}}, {"kind": "teleport", "to": "0x1"})
    writer.call("cuMulticastBindMem", {}, {}, {"kind": "bind", "handle": "0x79", "offset": 0, "size": 1, "device": 0})
    wrong = len(writer.lines)
    writer.reserve(BASE + 512 * MIB, 4 * MIB)
    writer.back(BASE + 512 * MIB, 4 * MIB)
    found = checked_steps(writer.recording())
    doubted = [step.number for step in found if "contradicts itself or is not whole" in step.words]
    assert doubted == [number for number in range(1, wrong + 1) if number != 2]
    assert "2 MiB" in texts(found[0])
    assert "read-write" in texts(found[1])
    assert "4 MiB" in texts(found[-1])


def test_unknown_calls_are_told_as_they_are():
    writer = Writer()
    writer.call("cuFromTheFuture", {"a": 1, "b": [1, {"c": None}], "d": "0x5"})
    writer.call("__init__", {}, {"words": 1})
    writer.call("cuWords", None, None, result="CUDA_ERROR_NOT_FOUND")
    writer.call("words", {"a": 1})
    writer.call("cudaMalloc", {"of": 1}, {"at": 2}, result="cudaSuccess")
    recording = writer.recording()
    found = checked_steps(recording)
    assert [step.kind for step in found] == ["asks", "asks", "refused", "asks", "asks"]
    assert [step.words for step in found[3:5]] == ["words (a 1) succeeds.", "cudaMalloc (of 1) succeeds."]
    assert "cuFromTheFuture" in found[0].words
    assert "CUDA_ERROR_NOT_FOUND" in found[2].words
    assert notes(recording) == ["No call changes addresses or memory."]
    assert notes(read("")) == ["The recording has no calls."]
    assert steps(read("")) == []
    writer.reserve(BASE, 0)
    writer.reserve(BASE, 4 * MIB)
    writer.back(BASE, 2 * MIB)
    writer.access([(BASE, 2 * MIB)], flags=5)
    assert " 5 " in f"{texts(checked_steps(writer.recording())[-1])} "


def test_sizes_that_are_the_mistake_are_exact():
    writer = Writer()
    writer.reserve(BASE, 64 * MIB)
    handle, _ = writer.create(32 * MIB)
    for size in (2 * MIB, 32 * MIB, 32 * MIB + 1):
        writer.call("cuMemMap", {"ptr": hex(BASE), "size": size, "handle": handle}, result="CUDA_ERROR_OF_SIZE")
    sentences = [step.words for step in checked_steps(writer.recording())[2:]]
    for words, part in zip(sentences, ("2 MiB of ", "", "32 MiB (33,554,433 B) of "), strict=True):
        assert f"was to map {part}allocation #1 (32 MiB of GPU 0) at the start of" in words


def ranges_of(writer):
    """What is said of ranges in the last step."""
    last = checked_steps(writer.recording())[-1]
    return [html.unescape(text) for text in re.findall(r'data-about="([^"]*)"', "".join(last.svg))]


def test_what_is_said_of_a_range():
    writer = Writer(sources={})
    writer.reserve(BASE, 64 * MIB)
    for i in range(4):
        writer.back(BASE + (8 + 2 * i) * MIB, 2 * MIB, 1)
    writer.access([(BASE + 8 * MIB + 2 * MIB * i, 2 * MIB) for i in range(4)], 1)
    writer.called_at(lambda number: ("a.cu", 7, "main"))
    said = ranges_of(writer)
    assert [text for text in said if "8 MiB of reservation" in text and "Mapped" in text] == [
        f"4 × 2 MiB at offset 8 MiB of reservation R1, from {BASE + 8 * MIB:#x}, is allocations #1 to #4 of "
        "GPU 1. GPU 0 no access, GPU 1 read-write. Mapped in steps 3, 5, 7, 9 by cuMemMap, a.cu:7. "
        "Opened in step 10 by cuMemSetAccess, a.cu:7."
    ]
    assert (
        f"Reservation R1: 64 MiB of addresses, {BASE:#x} to {BASE + 64 * MIB:#x}. "
        "Reserved in step 1 by cuMemAddressReserve, a.cu:7." in said
    )


def test_what_is_said_of_joined_ranges_is_so_of_each():
    """Each was opened by a call of its own; and of reservations that are alike each was mapped in a step of its own."""
    writer = Writer(sources={})
    writer.reserve(BASE, 64 * MIB)
    for i in range(3):
        writer.back(BASE + 2 * i * MIB, 2 * MIB)
        writer.access([(BASE + 2 * i * MIB, 2 * MIB)])
    writer.launch()
    writer.called_at(lambda number: ("a.cu", 7 + (number == 10), "main"))
    (said,) = (text for text in ranges_of(writer) if text.startswith("3 × 2 MiB at"))
    assert said.endswith("Mapped in steps 3, 6, 9 by cuMemMap, a.cu:7. Opened in steps 4, 7, 10 by cuMemSetAccess.")
    writer = Writer()
    for i in range(8):
        writer.reserve(BASE + 64 * i * MIB, 64 * MIB)
        writer.back(BASE + 64 * i * MIB, 2 * MIB)
        writer.access([(BASE + 64 * i * MIB, 2 * MIB)])
    writer.launch()
    (said,) = (text for text in ranges_of(writer) if text.startswith("2 MiB at"))
    assert "and alike in the others" in said
    assert said.endswith(
        "Mapped in steps 3, 7, 11, 15, 19, 23, 27, 31 by cuMemMap. "
        "Opened in steps 4, 8, 12, 16, 20, 24, 28, 32 by cuMemSetAccess."
    )


def test_a_name_of_several_reservations_is_numbered():
    """And of what a function was given, which has none."""
    writer = Writer(sources={"a.cu": "cuMemAddressReserve(&address, n);\ncuMemAddressReserve(\n  &table, n);\n;\n"})
    writer.about["sources"]["a.cu"] += "cuMemAddressReserve(given, n);"
    for number in range(4):
        writer.reserve(BASE + 64 * MIB * number, 4 * MIB)
    writer.called_at(lambda number: ("a.cu", (1, 2, 1, 5)[number - 1], "main"))
    names = [step.brief.partition("→ ")[2] for step in steps(writer.recording())]
    assert names == ["R1 (address)", "table", "R3 (address)", "R4"]


def left_of(element):
    return int(re.search(r' x="(\d+)"', element)[1])


def right_of(element):
    return left_of(element) + int(re.search(r' width="(\d+)"', element)[1])


def test_a_segment_of_many_sizes_keeps_its_rights_and_its_end():
    """Neighbours of whatever sizes are one where there is no room for each; what is mapped nowhere at the end stays by
    itself, and all that is mapped has its rights below it."""
    writer, at = Writer(), 0
    writer.reserve(BASE, 256 * MIB)
    for nth, size in enumerate((2, 20, 2, 8, 4, 2, 16, 2, 6, 12)):
        writer.release(writer.back(BASE + at * MIB, size * MIB))
        writer.access([(BASE + at * MIB, size * MIB)])
        at += size + 4 * (nth % 3 == 2)
    for nth in range(1, 8):
        writer.reserve(BASE + 1024 * nth * MIB, 2 * nth * MIB)
    writer.launch()
    last = checked_steps(writer.recording())[-1]
    assert "R1: 256 MiB reserved 24 MiB in 3 #1–#3 … 7 more 50 MiB 170 MiB not mapped " in texts(last)
    (rights,) = (element for element in last.svg if 'class="vmm-read-write"' in element)
    boxes = [element for element in last.svg if 'class="vmm-box vmm-gpu0"' in element][:2]
    assert left_of(rights) == left_of(boxes[0])
    assert right_of(rights) >= right_of(boxes[1]), "what is not told apart has no rights"


def test_alike_reservations_and_parts_of_one_are_told_apart():
    """What stands for several names these, and no others; a part that is opened has its offset."""
    writer = Writer()
    for nth, size in enumerate((2, 2, 4, 2, 2, 2, 2)):
        at = BASE + 64 * nth * MIB
        writer.reserve(at, 64 * MIB)
        writer.back(at, size * MIB)
        writer.access([(at, size * MIB)])
    writer.back(BASE + 8 * MIB, 2 * MIB)
    writer.access([(BASE + 8 * MIB, 2 * MIB)])
    writer.call("exit", {"status": 0}, result="")
    recording = writer.recording()
    found = checked_steps(recording)
    assert (found[3].brief, found[-2].brief) == ("R1: GPU 0 read-write", "R1 + 8 MiB: GPU 0 read-write")
    assert "R2, R4–R7: 5 × 64 MiB" in texts(found[-2])
    assert "32 steps, 31 of them calls." in about(recording)


def test_a_name_that_the_caller_gives():
    """To what the function returns; what it does not return has the function's."""
    calls = "int* own[gpu] = map(memory);", "mc = my::map(object);", "use(map(memory));", "it = map_all();"
    writer = Writer(sources={"a.cu": "\n".join(["cuMemAddressReserve(&address, n);", *calls])})
    for number in range(4):
        writer.reserve(BASE + 64 * MIB * number, 4 * MIB)
        places = [["a.cu", 1, "my::map(unsigned long)"], ["a.cu", 2 + number, "main"]]
        writer.about.setdefault("places", {})[writer.lines[-1]["callers"][0]] = places
    names = [step.brief.partition("→ ")[2] for step in steps(writer.recording())]
    assert names == ["own[gpu]", "mc", "R3 (address)", "R4 (address)"]


def test_a_fault_is_marked_where_it_is():
    writer = Writer()
    for at in range(BASE, BASE + 640 * MIB, 64 * MIB):
        writer.reserve(at, 4 * MIB)
    address = hex(BASE + 256 * MIB + 5 * MIB // 4)
    fault = {"where": "kernel k", "address": address, "why": "nothing is mapped there"}
    for _ in range(2):  # the second answers it once more
        writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress", fault=fault)
    found = checked_steps(writer.recording())
    assert [marked(step, "fault-at") for step in found[-3:]] == [0, 2, 2]  # there, and in the legend
    at = next(element for element in found[-1].svg if "fault-at" in element)
    gap = next(element for element in found[-1].svg if 'vmm-fault"' in element)
    x, width = (float(re.search(rf' {name}="(\d+)"', gap)[1]) for name in ("x", "width"))
    assert abs((float(re.search(r"M(\d+)", at)[1]) - x) / width - 5 / 16) < 0.02
    assert found.overview.faults == [11]


def test_a_fault_names_its_launch():
    """The trace of simulated GPUs tells which; on real ones it is inferred, and said so."""
    writer = Writer()
    for stream, thread in (None, 1), ("0x5510", 7), ("0x2", 1):
        writer.launch(stream, thread=thread)
    for _ in range(2):
        writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress")
    found = steps(writer.recording())
    told = "the kernel kernel that cudaLaunchKernel launched in step {0} went wrong"
    inferred = "if it was the last launch before this call (inferred)"
    assert found[3].words.endswith(f"cudaErrorIllegalAddress, which comes late: {told.format(3)}, {inferred}.")
    assert found[4].words.endswith(": the fault of step 4 again, as every later call of the process does.")
    assert (found.overview.faults, found.overview.repeats, found.overview.unanswered) == ([4], {5: 4}, [])
    headline = page(writer.recording(), found)
    assert '"#step=4">1 fault at step 4</a>' in headline
    assert '"#step=5">1 later call fails for the same reason, at step 5</a>' in headline
    fault = {"where": "kernel", "address": None, "why": "it", "launch": "cudaLaunchKernel #2"}
    for line in writer.lines[3:]:
        line["fault"] = fault
    found = steps(writer.recording())
    assert found[3].words.endswith(f"cudaErrorIllegalAddress: {told.format(2)}.")
    assert (found.overview.faults, found.overview.repeats) == ([4], {5: 4})
    assert [(step.thread, step.stream) for step in found[:3]] == [(0, 0), (1, 1), (0, 0)]


def test_a_kernel_that_runs_too_long_is_to_be_waited_for():
    """It had been launched before its memory was unmapped: to map memory there would not help. And calls are told by
    their steps."""
    advice = "nothing is mapped there; it was unmapped by cuMemUnmap #1: map memory (cuMemMap) and open it to GPU 0 "
    why = f"{BASE:#x} is reserved, and {advice}(cuMemSetAccess)"
    fault = {"where": "kernel", "address": hex(BASE + 5), "why": why, "launch": "cudaLaunchKernel #1"}
    for launches_first in True, False:
        writer = Writer()
        writer.reserve(BASE, 2 * MIB)
        writer.back(BASE, 2 * MIB)
        if launches_first:
            writer.launch()
        writer.unmap(BASE, 2 * MIB)
        writer.launch()
        whole = f"cudaDeviceSynchronize() answers cudaErrorIllegalAddress: kernel: {why}"
        writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress", fault=fault, explanation=whole)
        last = checked_steps(writer.recording())[-1]
        told = "wait for its stream (cudaStreamSynchronize) before the unmap"
        late = f"launched in step 4 went wrong, for step 5 unmapped its memory while it could still run: {told}."
        assert last.words.endswith(late if launches_first else "launched in step 5 went wrong.")
        unmapped = f"it was unmapped by cuMemUnmap in step {4 + launches_first}"
        then = (
            f" after step 4 had launched the kernel: {told}" if launches_first else ": map memory (cuMemMap) and open"
        )
        for text in last.cause, last.explanation:
            assert unmapped + then in text


def test_a_late_fault_names_what_was_unmapped_before():
    """Launches overlap, so the last one may be innocent; but not if the process waited for all of them."""
    for launches, waits, is_near in (1, False, True), (101, False, False), (1, True, False):
        writer = Writer(places={"pool+0x5": [["pool.cc", 7, "shrink"]]})
        writer.reserve(BASE, 2 * MIB)
        writer.back(BASE, 2 * MIB)
        writer.launch()
        writer.call("cudaGraphLaunch")
        if waits:
            writer.call("cudaDeviceSynchronize")
        writer.unmap(BASE, 2 * MIB, callers=["pool+0x5"])
        for _ in range(launches):
            writer.launch()
        writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress")
        words = steps(writer.recording())[-1].words
        wanted = (
            "It answers cudaErrorIllegalAddress. An earlier kernel touched memory that was not mapped; CUDA reports it "
            "only now. pool.cc:7 in shrink unmapped 2 MiB in step 6 while work that was launched before (the last "
            "graph in step 5, the last kernel in step 4) may still have been running (inferred): "
            "wait for its stream (cudaStreamSynchronize) before the unmap. Otherwise it was the "
            "last launch, in step 7."
        )
        assert (words.endswith(wanted), "unmapped" in words) == (is_near, is_near)


def test_what_a_process_leaves():
    writer = sample.chunks(3, stay=True)
    writer.allocate(0x1000, 3 * MIB)
    writer.allocate(0x9000, MIB, call="cudaLaunchKernel")  # a module's variables: nobody gives them back
    writer.call("exit", {"status": 3}, result="")
    writer.call("cuInit", {"Flags": 0}, pid=2)
    recording = writer.recording()
    found = checked_steps(recording)
    assert "ends with status 3" in found[-2].words
    assert marked(found[-2], "gone") > 2
    assert "nothing reserved" in texts(found[-1])
    assert found.overview.left == ({("", 0): 6 * MIB, ("ordinary", 0): 3 * MIB}, {"reservation": 1})
    left = f'<a href="#step={len(found)},held">6 MiB, 3 MiB by cudaMalloc<'
    assert f"left at the end: {left}" in page(recording, found)


def test_a_column_that_is_not_there_is_a_mistake():
    """Of JavaScript, which asks for it; or of Python, which has packed too many or too few."""
    packed = drawn(steps(sample.short().recording()))
    for script, reservation, words in (
        ("(lives) => lives.reservations[0].bron", packed["reservations"][0], "no column is called bron"),
        ("(lives) => lives.reservations[0].born", packed["reservations"][0][:-1], "6 values for process,name,base"),
    ):
        with pytest.raises(Exception, match=words):
            pictures({**packed, "reservations": [reservation]}, [{}], f"const drawn = {script};")
