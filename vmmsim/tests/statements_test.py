# SPDX-License-Identifier: MIT-0
"""What a view says of a recording and of its calls is so, where that is easily false: recordings that never ran."""

import copy
import random
import re

from vmmsim.testing.sample import BASE, MIB, Writer, held_in_each
from vmmsim.view import records
from vmmsim.view.compare import differences
from vmmsim.view.durations import duration_text, of_gpus
from vmmsim.view.frames import notes, steps
from vmmsim.view.overview import matters
from vmmsim.view.sizes import OF_GRAPH, OWN


def told(steps):
    """What stands above the timeline, without the links."""
    return re.sub("<[^>]*>", "", matters(steps.overview, "step")).strip()


def with_descriptor(pid=1):
    """An allocation of 2 MiB, and its export as descriptor 9, which the recording follows."""
    writer = Writer()
    handle, record = writer.create(2 * MIB, pid=pid)
    writer.export(handle, pid, identity="0x101", followed=True)
    return writer, handle, record


def test_what_a_process_held_that_vanishes_is_gone():
    writer, handle, record = with_descriptor()
    taken = writer.take(record, 2, identity="0x101")
    writer.reserve(BASE, 2 * MIB, pid=2)
    writer.map(BASE, 2 * MIB, taken, pid=2)
    writer.allocate(0x1000, MIB, pid=2)
    writer.call("close", {"fd": 9}, result="", pid=1)
    writer.call("close", {"fd": 9}, result="", pid=2)
    writer.release(handle)
    writer.call("vanished", {"signal": 9}, result="", pid=2)
    writer.call("gone", {}, {}, {"kind": "gone", "identity": "0x101"}, result="", pid=1)
    writer.call("exit", {"status": 0}, result="", pid=1)
    found = steps(writer.recording())
    taken_back = "The system takes back what it alone held: 2 MiB of GPU 0, 1 MiB of GPU 0 by cudaMalloc."
    assert found[-2].words == f"Process 2: The process vanished: SIGKILL ended it. {taken_back}"
    vanished, ended = len(found) - 1, "of 2 processes ended 1 by itself, 1 by SIGKILL"
    assert found.overview.opens_at() == len(found) - 1
    assert (found[-2].kind, found[-2].brief, found[-1].kind) == ("refused", "ended by SIGKILL", "asks")
    assert (found[-1].owner, found[-2].owner) == ("", "")
    how = f"1 process vanished at step {vanished}; nothing left at the end; {ended}"
    assert told(found) == f"peak 3 MiB at step 6; {how}."
    packed = found.lives.packed()
    for kind in "reservations", "mappings", "handles", "blocks", "descriptors":
        assert all(record.died for record in packed[kind]), kind


def work_of(correlation, kind, begin, took, **more):
    """What GPU 0 did, in microseconds."""
    times = {"start": begin * 1000, "end": (begin + took) * 1000}
    return {"correlation": correlation, "kind": kind, "device": 0, **times, **more}


def test_how_long_a_gpu_worked_is_told_at_the_call_that_gave_the_work():
    writer = Writer()
    writer.executed(work_of(1, "copy", 1003, 100, bytes=10**6))  # before the line of the call, which waited for it
    writer.call("cudaMemcpy", {"count": 10**6}, time=1110, began=1000, correlation=1)
    writer.call("cudaLaunchKernel", {"func": "fill"}, time=1120, began=1115, correlation=2)
    writer.call("cudaGraphLaunch", {}, time=1130, began=1125, correlation=3)
    writer.call("cudaLaunchKernel", {"func": "fill"}, time=1140, began=1135, correlation=4)
    names = ["fill(int*)", "void add<int>(int*)", "sum(int*)", "copy(int*)"]
    of_graph = [work_of(3, "kernel", 1200 + 10 * i, i + 1, name=name) for i, name in enumerate(["last(int*)", *names])]
    bad = [work_of(2, "dance", 1, 1), work_of(2, "kernel", 2, -1), work_of("2", "kernel", 1, 1), 7, {}]
    writer.executed(work_of(2, "kernel", 1150, 12), *of_graph[:2], *bad)
    writer.executed(
        *of_graph[2:],
        work_of(3, "memset", 1300, 1),
        work_of(3, "copy", 1200, 150),
        work_of(99, "kernel", 1, 1),
        time=5000,
    )
    writer.executed(work_of(4, "kernel", 1, 1), pid=2)  # another process's
    recording = writer.recording()
    found = steps(recording)
    assert [step.words.partition("On GPU")[2] for step in found] == [
        " 0 the copy took 100 µs, 10 GB/s.",
        " 0 the kernel took 12 µs.",
        " 0 5 kernels, 1 copy and 1 memset took 150 µs from the first to the last: "
        "copy 5 µs, sum 4 µs, add 3 µs and 2 others.",
        "",
    ]
    assert of_gpus(recording) == [(0, [(1, -107, -7), (2, 40, 52), (3, 90, 240)])]
    of_simulator = Writer()
    of_simulator.allocate(0x1000, MIB)
    assert of_gpus(of_simulator.recording()) == []


def test_memory_of_a_graph_is_the_graphs_own():
    writer = Writer()
    writer.call("cudaStreamBeginCapture", {"stream": "0x5", "mode": 0}, result="cudaSuccess")
    writer.allocate(0x1000, MIB, call="cudaMallocAsync", stream="0x5")
    writer.call("cudaStreamEndCapture", {"stream": "0x5", "pGraph": "0x1"}, result="cudaSuccess")
    writer.allocate(0x200000, 2 * MIB, call="cudaGraphAddMemAllocNode")
    writer.allocate(0x600000, 4 * MIB, call="cudaMallocAsync", stream="0x5")
    writer.call("cudaGraphLaunch", {"kernels": ["a()", "b()", "a()"]}, result="cudaSuccess")
    found = steps(writer.recording())
    assert [block.kind for block in found.lives.all["blocks"]] == [OF_GRAPH, OF_GRAPH, OWN]
    assert found.lives.left()[0] == {("ordinary", 0): 7 * MIB}
    assert "launches a graph with 3 kernels: a() (2 ×), b();" in found[-1].words


def test_of_a_refusal_it_is_told_whether_it_was_ever_done():
    writer = Writer()
    handle, _ = writer.create(2 * MIB)
    given = {"ptr": hex(BASE), "size": 2 * MIB, "offset": 0, "handle": handle, "flags": "0x0"}
    for ptr in BASE, BASE, BASE + 4 * MIB:
        writer.call("cuMemMap", {**given, "ptr": hex(ptr)}, result="CUDA_ERROR_OUT_OF_MEMORY")
    writer.call("cuMemRelease", {"handle": "0x99"}, result="CUDA_ERROR_INVALID_VALUE")
    writer.map(BASE, 2 * MIB, handle, pid=2)
    writer.map(BASE, 2 * MIB, handle)
    writer.call("cuMemMap", given, result="CUDA_ERROR_INVALID_VALUE")
    words = [step.words.rpartition(". ")[2] for step in steps(writer.recording()) if step.kind == "refused"]
    never = "It was never done: no later call does the same."
    assert words[:3] == ["Done later, in step 7.", "Done later, in step 7.", never]
    assert "later" not in words[3]
    assert words[4] == never


def test_durations_have_three_digits():
    texts = [duration_text(time) for time in (0, 999, 1000, 12_345, 999_400, 1_500_000, 60 * 10**9, 3600 * 10**9)]
    assert texts == ["0 ns", "999 ns", "1 µs", "12.3 µs", "999 µs", "1.5 ms", "60 s", "3600 s"]


def test_of_a_peak_the_first_step_is_told():
    writer = Writer()
    for _ in range(2):
        handle, _ = writer.create(2 * MIB)
        writer.release(handle)
    assert told(steps(writer.recording())) == "peak 2 MiB first at step 1; nothing left at the end."


def test_what_a_descriptor_holds_is_told():
    """Also memory that was unmapped and released before."""
    writer, handle, _ = with_descriptor()
    writer.reserve(BASE, 2 * MIB)
    writer.map(BASE, 2 * MIB, handle)
    writer.release(handle)
    writer.unmap(BASE, 2 * MIB)
    writer.call("cuMemGetInfo", {}, {"free": 100 * MIB, "total": 200 * MIB})
    closed = copy.deepcopy(writer)
    writer.call("exit", {"status": 0}, result="")
    found = steps(writer.recording())
    assert "it succeeds, and the memory stays while it is mapped." in found[4].words
    assert "it succeeds, and descriptor 9 still holds it." in found[5].words
    left = "left at the end: 2 MiB (2 MiB mapped nowhere); the process ended by itself."
    assert told(found) == f"peak 2 MiB at step 1; {left}"
    assert found.lives.packed()["descriptors"] == [records.Descriptor(process=0, memory=1, fd=9, born=2, died=8)]
    assert found.lives.left()[1] == {"open descriptor": 1, "reservation": 1}
    closed.call("close", {"fd": 9}, result="")
    closed.call("gone", {}, {}, {"kind": "gone", "identity": "0x101"}, result="")
    found = steps(closed.recording())
    assert found[7].words == "The process closes descriptor 9, of allocation #1 (2 MiB of GPU 0)."
    assert len(found) == 8  # it goes in that step
    assert found.lives.packed()["descriptors"] == [records.Descriptor(process=0, memory=1, fd=9, born=2, died=8)]
    assert told(found) == "peak 2 MiB at step 1; left at the end: 1 reservation."


def test_memory_that_stays_is_held_by_what_is_not_told():
    writer, handle, _ = with_descriptor()
    writer.call("close", {"fd": 9}, result="")
    writer.release(handle)
    writer.reserve(BASE, MIB)  # this has looked, and it was there
    writer.reserve(BASE + MIB, MIB)
    writer.call("gone", {}, {}, {"kind": "gone", "identity": "0x101"}, result="")
    found = steps(writer.recording())
    assert "a descriptor that no call tells of (a copy, " in found[3].words
    assert "Allocation #1 (2 MiB of GPU 0) is gone" in found[-1].words


def test_missing_ends_are_told():
    writer = Writer()
    writer.create(2 * MIB)
    assert notes(writer.recording()) == []
    writer.create(2 * MIB, pid=2)
    assert "It is not recorded how each process ended, so what one held" in notes(writer.recording())[0]
    writer.call("exit", {"status": 0}, result="", pid=1)
    assert "The recording ends before process 2. What it held then" in notes(writer.recording())[0]
    writer.call("vanished", {}, result="", pid=2)
    assert notes(writer.recording()) == []
    writer.order.clear()
    writer.create(4 * MIB, pid=2)  # another program in the same process
    found = steps(writer.recording())
    assert "quick_exit did, or it became another program" in found[3].words
    assert told(found).partition("; left ")[2].startswith("at the end: 6 MiB (6 MiB mapped nowhere)")


def test_it_is_told_how_it_ended():
    """A recorder sees no end: there the status tells, as a shell has it, of the program alone."""
    killed, without_a_word = ("vanished", {"signal": 9}), ("vanished", {})
    unknown = "in a way that is not recorded"
    for about, processes, ends, words in (
        ({}, 1, (), ""),
        ({"status": 0}, 1, (), "the program ended by itself"),
        ({"status": 3}, 2, (), "the program ended with status 3"),
        ({"status": 139}, 1, (), "the program ended by SIGSEGV"),
        ({"status": 0}, 1, [killed], "the process ended by SIGKILL"),
        ({"status": 0}, 1, [without_a_word], "the process ended without a word"),
        ({}, 3, [("exit", {"status": 137})], f"of 3 processes ended 1 with status 137, 2 {unknown}"),
    ):
        writer = Writer(**about)
        for pid in range(processes):
            writer.call("cuInit", pid=pid + 1)
        for call, arguments in ends:
            writer.call(call, arguments, result="", pid=1)
        assert steps(writer.recording()).overview.ending == words


def test_it_is_told_how_two_runs_differ():
    one, other = Writer(status=0), Writer(status=139)
    for writer in one, other:
        handle, _ = writer.create(2 * MIB)
        writer.release(handle)
        writer.create(2 * MIB)  # left by both
        writer.called_at(lambda number: ("grow.cu", number, "main"))
    same = [(writer.recording(), steps(writer.recording())) for writer in (one, one)]
    assert differences(same) == ["No difference in what they hold, call, are refused and leave."]
    other.reserve(BASE, 8 * MIB)  # holds no memory
    for size in 4, 4, 1:
        handle, _ = other.create(size * MIB)
    other.release(handle)
    other.call("cuMemMap", {"ptr": hex(BASE)}, result="CUDA_ERROR_INVALID_VALUE")
    one.allocate(0x1000, MIB)
    for writer in one, other:
        writer.called_at(lambda number: ("grow.cu", 5, "main"))
    runs = [(writer.recording(), steps(writer.recording())) for writer in (one, other)]
    for (recording, _), name in zip(runs, ("before.jsonl.gz", "after.jsonl"), strict=True):
        recording.path = name
    assert differences(runs) == [
        "They differ in what they hold of GPU 0 from step 4 of before, 3 MiB, 2 MiB of it mapped nowhere; and from "
        "step 5 of after, 6 MiB, mapped nowhere.",
        "Peaks: GPU 0 3 MiB at step 4 of before and 11 MiB at step 7 of after.",
        "Left at the end only in before: 1 MiB of GPU 0 by cudaMalloc (grow.cu:5 in main).",
        "Left at the end only in after: 2 × 4 MiB of GPU 0 (grow.cu:5 in main).",
        "Refused only in after: cuMemMap, CUDA_ERROR_INVALID_VALUE.",
        "Calls of before and of after: cuMemCreate 2 and 5; cuMemRelease 1 and 2; cudaMalloc 1 and 0; and 2 more.",
        "before: the program ended by itself; after: the program ended by SIGSEGV.",
    ]


def test_launches_have_a_short_name_and_a_grid():
    """Each has a short name, and its grid if that is known."""
    config = {"gridDim": [16, 16, 1], "blockDim": [32, 8, 1]}
    one_by_one = {what + axis: 4 for what in ("gridDim", "blockDim") for axis in "XYZ"}
    grid, block, add = [2048, 1, 1], [256, 1, 1], "void at::native::vectorized<4, at::native::Add<float>>(int)"
    for arguments, words, brief in (
        ({"func": "f(int*)", "gridDim": grid, "blockDim": block}, "2048 blocks of 256", "f<<<2048, 256>>>"),
        ({"func": "f(int*)", "config": config}, "16 × 16 blocks of 32 × 8", "f<<<(16,16), (32,8)>>>"),
        ({"f": "f(int*)", **one_by_one}, "4 × 4 × 4 blocks of 4 × 4 × 4", "f<<<(4,4,4), (4,4,4)>>>"),
        ({"func": "void at::native::(anonymous namespace)::fill<float, 4>(int, float*)"}, "", "at::native::fill"),
        ({"func": add}, "", "at::native::vectorized"),
        ({"func": "(anonymous namespace)::own(int const*)"}, "", "own"),
        ({"func": "plain"}, "", "plain"),
    ):
        writer = Writer()
        writer.call("cudaLaunchKernel", arguments, result="cudaSuccess")
        (step,) = steps(writer.recording())
        name = next(iter(arguments[key] for key in ("func", "f") if key in arguments)).removeprefix("void ")
        threads = f", {words} threads" if words else ""
        assert f"launches the kernel {name} on GPU 0{threads}; it succeeds." in step.words
        assert step.brief == brief


def test_launches_of_one_template():
    """They bear what tells them apart: one argument where one does, and no more of it than is needed."""
    writer = Writer()
    add, lambdas = "void at::each<4, at::Add<float> >(int)", "void at::each<2, at::fill(int)::{lambda()#1}>(int)"
    names = add, lambdas, add.replace("4", "8"), "two<1, a>()", "two<2, a>()", "two<2, b>()", "two_others<1>()"
    for name in names:
        writer.call("cudaLaunchKernel", {"func": name}, result="cudaSuccess")
    writer.call("cudaLaunchKernel", {"func": add}, result="cudaErrorLaunchOutOfResources")
    assert "1 refusal at step 8; 7 launches from step 1." == told(steps(writer.recording()))
    assert [step.brief for step in steps(writer.recording())] == [
        *("at::each<4>", "at::each<2>", "at::each<8>", "two<1, a>", "two<2, a>", "two<2, b>", "two_others"),
        "cudaErrorLaunchOutOfResources",
    ]
    del writer.lines[2:]
    assert [step.brief for step in steps(writer.recording())] == ["at::each<4>", "at::each<2>"]


def test_a_call_that_never_ends_is_seen():
    """One that ends after all has only its own line."""
    writer = Writer()
    writer.launch()
    for nth in 1, 2:
        waits = {"call": "cudaDeviceSynchronize", "nth": nth}
        writer.call("wait", waits, result="", device=-1)
        if nth == 1:
            writer.call("cudaDeviceSynchronize", result="cudaSuccess")
            writer.launch()
    writer.call("vanished", {"signal": 2}, result="")
    found = steps(writer.recording())
    assert [step.call for step in found][1:] == ["cudaDeviceSynchronize", "cudaLaunchKernel", "wait", "vanished"]
    assert found[3].words == (
        "cudaDeviceSynchronize waits for work of a GPU and has not ended: the program hangs here, or was ended while "
        "it waited. The last launch before that is in step 3."
    )
    assert (found[3].brief, found.overview.opens_at()) == ("cudaDeviceSynchronize never ends", 4)
    assert "1 call that never ends at step 4; 1 process vanished at step 5;" in told(found)


def test_what_is_captured_is_no_launch():
    """It has its own count, also in a stream that joins the capture; of a graph the kernels are counted, not the first
    one's name told; and what goes with the graph is said."""
    one, other, event = "0x5510", "0x5520", {"event": "0x77"}
    writer = Writer()
    writer.launch(one)
    writer.call("cudaStreamBeginCapture", {"stream": one, "mode": 0}, result="cudaSuccess")
    writer.launch(one)
    writer.launch(other)  # which has nothing to do with it
    writer.call("cudaEventRecord", {**event, "stream": one}, result="cudaSuccess")
    writer.call("cudaStreamWaitEvent", {**event, "stream": other}, result="cudaSuccess")
    writer.launch(other)
    writer.allocate(0x1000, MIB, call="cudaMallocAsync", stream=one)
    writer.call("cudaStreamEndCapture", {"stream": one, "pGraph": "0x1"}, result="cudaSuccess")
    writer.launch(other)
    writer.call("cudaGraphLaunch", {"stream": one, "kernels": ["a()", "a()"]}, result="cudaSuccess")
    writer.call("cudaGraphLaunch", {"stream": one, "kernels": ["a()"]}, result="cudaSuccess")
    gone = {"kind": "free", "address": "0x1000"}
    writer.call("cudaGraphDestroy", {"graph": "0x9"}, {}, gone, result="cudaSuccess")
    writer.call("cudaDeviceSynchronize", result="cudaErrorIllegalAddress")
    found = steps(writer.recording())
    assert (found.overview.launches, found.overview.captured) == ([1, 4, 10, 11, 12], [3, 7])
    assert "; 5 launches from step 1; 2 captured launches from step 3;" in told(found)
    assert [step.number for step in found if step.is_captured] == [3, 5, 6, 7, 8]
    nothing = "is captured, and does nothing now: a launch of the graph is to"
    assert found[2].words.startswith(f"cudaLaunchKernel {nothing} launch the kernel kernel(int*)")
    assert found[7].words.endswith(f"{nothing} allocate 1 MiB; it gives it at 0x1000, and counts from here on.")
    briefs = ["captured kernel<<<1, 1>>>", "graph of 2 kernels", "graph of a"]
    assert [found[nth].brief for nth in (2, 10, 11)] == briefs
    assert found[12].words.endswith("succeeds. With it goes 1 MiB of cudaMallocAsync.")
    writer.lines[10:12] = []
    assert "launched in step 10 went wrong" in steps(writer.recording())[-1].words
    writer.lines[9:10] = []
    assert "launched in step 4 went wrong" in steps(writer.recording())[-1].words, "what is captured goes wrong"


def asked_twice(result, second, caller):
    """The steps of a map of the half of an allocation, the third, and then of this call of cuMemMap."""
    writer = Writer()
    handle, _ = writer.create(2 * MIB)
    writer.reserve(BASE, 2 * MIB)
    half = {"ptr": hex(BASE), "size": MIB, "offset": 0, "handle": handle, "flags": "0x0"}
    for arguments, answer, its in (half, result, "program+0x10"), (half | second, "CUDA_SUCCESS", caller):
        writer.call("cuMemMap", arguments, {}, result=answer, callers=[its, "libc.so.6+0x29d90"])
    return steps(writer.recording())


def test_a_refusal_that_is_answered_leads_to_the_answer():
    value, like = "CUDA_ERROR_INVALID_VALUE", "program+0x10"
    found = asked_twice(value, {"size": 2 * MIB}, like)
    words = "Refused, then done otherwise in step 4 (inferred: the same caller asks again with other arguments)."
    assert found[2].words.endswith(words)
    assert "peak 2 MiB at step 1; 1 answered refusal at step 3; left at the end:" in told(found)
    elsewhere = {"size": 5 * MIB, "ptr": hex(BASE + MIB), "handle": "0x9", "offset": MIB}
    for result, second, callers in (
        (value, {}, like),  # the very same arguments: what has changed is elsewhere
        (value, elsewhere, like),  # another call altogether
        (value, {"handle": "0x9", "ptr": hex(BASE + 4 * MIB)}, like),  # the same function, for other memory elsewhere
        (value, {"size": 2 * MIB}, "program+0x20"),  # of another function
        ("CUDA_ERROR_OUT_OF_MEMORY", {"size": 2 * MIB}, like),  # it did lack something
    ):
        found = asked_twice(result, second, callers)
        assert "; 1 refusal at step 3;" in told(found)
        assert found.overview.opens_at() == 3


def test_an_answer_is_for_the_same_thing():
    """Of memory that has no name yet: as much of the same place, and at once; if the way alone is refused, any."""
    value, way = "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_NOT_SUPPORTED"
    for result, its_size, types, does, is_answered in (
        (way, 2, 1, None, True),
        (way, 4, 1, None, True),
        (way, 4, 8, None, False),  # the same way
        (value, 2, 1, None, True),
        (value, 4, 1, None, False),  # more: another chunk
        (value, 2, 1, Writer.launch, False),  # the program went on without it
    ):
        writer = Writer()
        location = {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": 0}
        prop = {"type": "CU_MEM_ALLOCATION_TYPE_PINNED", "requestedHandleTypes": 8, "location": location}
        asked = {"handle": "0x1", "size": 2 * MIB, "prop": prop, "flags": "0x0"}
        writer.call("cuMemCreate", asked, result=result, callers=["program+0x10"])
        if does:
            does(writer)
        writer.create(its_size * MIB, callers=["program+0x10"])
        writer.lines[-1]["arguments"]["prop"]["requestedHandleTypes"] = types
        overview = steps(writer.recording()).overview
        assert (list(overview.answered), overview.unanswered) == (([1], []) if is_answered else ([], [1]))
    writer = Writer()  # of two handles, both
    for memory, result in ("0x7", value), ("0x8", "CUDA_SUCCESS"):
        arguments = {"mcHandle": "0x5", "memHandle": memory, "mcOffset": 0, "memOffset": 0, "size": 2 * MIB}
        writer.call("cuMulticastBindMem", arguments, result=result, callers=["program+0x10"])
    assert steps(writer.recording()).overview.unanswered == [1]
    writer.lines[1]["arguments"] |= {"memHandle": "0x7", "memOffset": 2 * MIB}
    assert list(steps(writer.recording()).overview.answered) == [1]


def test_what_libraries_ask_for_again_is_no_error():
    writer = Writer()
    for _ in range(2):
        writer.call("cudaDeviceEnablePeerAccess", {"peerDevice": 1, "flags": 0}, result="cudaSuccess")
    writer.lines[1]["result"] = "cudaErrorPeerAccessAlreadyEnabled"
    found = steps(writer.recording())
    assert "That was so already, since step 1; libraries ask all the same (inferred)." in found[1].words
    assert found.overview.unanswered == []
    prop = {"requestedHandleTypes": 8, "location": {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": 0}}
    writer.call("cuMemCreate", {"size": MIB, "prop": prop}, result="CUDA_ERROR_NOT_PERMITTED")
    found = steps(writer.recording())
    assert "needs an IMEX channel that the process may open: most likely there is none." in found[2].words
    prop = {"requestedHandleTypes": 0, "location": {"type": "CU_MEM_LOCATION_TYPE_INVALID", "id": 0}}
    for result in "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_OUT_OF_MEMORY":
        writer.call("cuMemCreate", {"size": MIB, "prop": prop}, result=result)
    invalid, no_room = (step.words for step in steps(writer.recording())[-2:])
    assert "1 MiB of memory of no place (CU_MEM_LOCATION_TYPE_INVALID). It" in invalid
    assert "There was not enough memory left: see who holds it" in no_room


def test_the_view_opens_at_a_leak():
    """What is left and mapped nowhere; there the view opens, with who holds it. Not if the program failed."""
    for status, opens, ended in (0, "8,held", "by itself"), (1, "5", "with status 1"):
        writer = Writer(status=status)
        writer.reserve(BASE, 64 * MIB)
        writer.release(writer.back(BASE, 4 * MIB))
        writer.back(BASE + 8 * MIB, 2 * MIB)
        writer.unmap(BASE + 8 * MIB, 2 * MIB)
        writer.call("exit", {"status": status}, result="")
        found = steps(writer.recording())
        assert found.overview.opens() == opens
        more = " (2 MiB mapped nowhere)" * (not status)
        assert f"left at the end: 6 MiB{more}; the process ended {ended}" in told(found)


def test_what_an_allocator_shuffles_is_counted():
    """Two processes make, map, unmap and give back in an order drawn at random, and share: after each step what is
    mapped and what is not is what is counted here."""
    draw, writer = random.Random(7), Writer()
    chunks, mapped = {}, {}  # which memory, by (process, handle) and by (process, address)
    records, wanted = {}, []  # of memory; after each step: (what is mapped, what is not)
    for pid in 1, 2:
        writer.reserve(BASE, 512 * MIB, pid=pid)
        wanted.append((0, 0))
    while len(wanted) < 600:
        pid, at = draw.choice((1, 2)), BASE + 8 * MIB * draw.randrange(64)
        handle = draw.choice([None, *(handle for its, handle in chunks if its == pid)])
        if (pid, at) in mapped:
            writer.unmap(at, records[mapped.pop((pid, at))]["size"], pid=pid)
        elif not handle:
            handle, record = writer.create(draw.choice((2, 4, 8)) * MIB, pid=pid)
            chunks[pid, handle], records[handle] = handle, record
        elif (what := draw.choice(("map", "release", "give"))) == "map":
            memory = mapped[pid, at] = chunks[pid, handle]
            writer.map(at, records[memory]["size"], handle, pid=pid)
        elif what == "release":
            del chunks[pid, handle]
            writer.release(handle, pid=pid)
        else:
            memory = chunks[pid, handle]
            chunks[3 - pid, writer.give(handle, records[memory], pid, 3 - pid)] = memory
            wanted.append(wanted[-1])
        is_mapped = {*mapped.values()}
        idle = {*chunks.values()} - is_mapped
        wanted.append(tuple(sum(records[each]["size"] for each in some) for some in (is_mapped, idle)))
    found = steps(writer.recording())
    assert "contradicts" not in " ".join(step.words for step in found)
    assert [held[:2] for held in held_in_each(found)] == wanted
    assert found.lives.left()[0].get(("", 0), 0) == sum(wanted[-1])
