# SPDX-License-Identifier: MIT-0
"""What the judge promises to whoever writes checks, with labs made here; and --real, on a GPU made here."""

import contextlib
import functools
import re
import types

import pytest

from labs.judge.check import ENDED, GIVEN_BACK, CheckFailed, check
from labs.judge.program import CannotJudge, Ended, Program
from labs.judge.runner import fits
from labs.judge.splice import NotWhole, changed, spliced
from labs.judge.verdict import BUILT, PRINTED, REAL, Judge, Lab, all_labs

LAB = all_labs()[0]
SOLUTION, STARTER = LAB.whole_solution(), LAB.starter.read_text()

BEFORE = '#include <poll.h>\n#include <unistd.h>\n#include <thread>\n#include "../lab.h"\nint main() {\nlab::begin();\n'
FIRST = 7  # the line that is the first of a body
OUTPUT = "0 KiB are not given back\nOK\n"
# Memory of the four steps, on as many GPUs as there are; it gives all back, also if a call fails, and then returns 1.
RIGHT = """
CUmemAllocationProp properties = {};
properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
CUmemGenericAllocationHandle handle;
if (cuMemCreate(&handle, 2 << 20, &properties, 0)) return lab::end() + 1;
CUdeviceptr address;
if (cuMemAddressReserve(&address, 2 << 20, 0, 0, 0)) return cuMemRelease(handle) + lab::end() + 1;
CHECK(cuMemAddressFree(address, 2 << 20));
CHECK(cuMemRelease(handle));
return lab::end();
"""
FREE, RELEASE = "CHECK(cuMemAddressFree(address, 2 << 20));\n", "CHECK(cuMemRelease(handle));\n"
REFUSED = RIGHT.replace(RELEASE, 2 * RELEASE)
LEAKING = RIGHT.replace(RELEASE, "")
STREAM = "cudaStream_t it;\nCHECK(cudaStreamCreate(&it));\n"
GRAPH = "cudaGraph_t graph;\nCHECK(cudaGraphCreate(&graph, 0));\ncudaGraphExec_t run;\n"
GRAPH += "CHECK(cudaGraphInstantiate(&run, graph, 0));\nCHECK(cudaGraphDestroy(graph));\n"
EVENT = "cudaEvent_t event;\nCHECK(cudaEventCreate(&event));\nCHECK(cudaEventDestroy(event));\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program of a body, built once for all tests that have the same."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def built(body):
            source = tmp_path_factory.mktemp("lab") / "program.cu"
            source.write_text(BEFORE + body + "\n}\n")
            its = stack.enter_context(Program(source))
            assert its.build()[0]
            its.build = lambda: (True, "")
            return its

        yield built


@pytest.fixture
def verdict(program):
    """The verdict on a body, of a lab with these checks; `real` is how it ends on a GPU."""

    def of(body, *checks, real=None):
        lab, its = Lab.__new__(Lab), program(body)
        lab.checks, lab.options, lab.mains, lab.page = checks, {"gpus": 1, "main": 0}, ({},), "lab.md"
        lab.about = types.SimpleNamespace(OUTPUT="")
        its.run_on_gpu = lambda: real
        return Judge(lab, its, bool(real)).verdict()

    return of


def fails(title, name="", **options):
    """A check that does not hold; for the first call of this name, if there is one, that was refused or not."""

    @check(title, **options)
    def function(run):
        its = next((call for call in run.all if call.name == name), run)
        raise its.wrong("something", "nothing") if name else CheckFailed("something", "nothing")

    return function


def holds(title):
    return check(title)(lambda run: run.calls("cuMemCreate")[0])


def statuses(verdict):
    return ", ".join(status for _, status in verdict.checks)


def test_what_comes_first_is_told(verdict):
    """What stopped the program is to blame for a call that is missing, and not for one that came before."""
    body = "CUdeviceptr address;\nCHECK(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));\nCHECK(cuMemUnmap(1, 1));"
    its = verdict(body, fails("it is created"))
    assert its.failed == ENDED
    assert re.search(
        r"CHECK\(cuMemUnmap\(1, 1\)\);\n.*\n.*cuMemUnmap was refused: (\w+)\n"
        r"In words: +ptr: nothing is reserved.*\n"
        r"The call in full: +cuMemUnmap\(.*\) answers \1\n$",
        its.words,
    )
    assert verdict(body, fails("it is not reserved", "cuMemAddressReserve")).failed == "it is not reserved"
    its = verdict(body, fails("it is not unmapped", "cuMemUnmap"))
    assert its.failed == "it is not unmapped"
    assert "In words:" in its.words


def test_a_call_in_vain_is_followed(verdict):
    """A call that succeeds and changes nothing fits what came before."""
    in_vain = """
        CHECK(cuMemUnmap(address, 2 << 20));
        CHECK(cudaFree(nullptr));
        CHECK(cudaFreeHost(nullptr));
        CHECK(cudaFreeAsync(nullptr, nullptr));
        CHECK(cuMemFree(0));
        void* nothing = nullptr;
        CHECK(cudaMalloc(&nothing, 0));
    """
    its = verdict(RIGHT.replace(FREE, in_vain + FREE), check("all can be followed")(lambda run: [*run.replay()]))
    assert (its.failed, its.words) == ("", "")


def test_what_contradicts_itself_is_not_judged(verdict):
    """That a call has changed what was not there is no mistake of the student's, or it was made on purpose."""

    @check("it is followed")
    def followed(run):
        run.all = [call for call in run.all if call.name != "cuMemCreate"]
        list(run.replay())

    with pytest.raises(CannotJudge, match="cuMemRelease: what the record tells of it .* says nothing of your file"):
        verdict(RIGHT, followed)


def test_the_list_keeps_its_order(verdict):
    """What holds is known of each check by itself, and what needs another run waits for the first one."""
    checks = holds("one"), fails("of what is missing"), holds("two")
    its = verdict(RIGHT, *checks)
    titles = [BUILT, "one", "of what is missing", "two", ENDED, GIVEN_BACK, PRINTED]
    assert [title for title, _ in its.checks] == titles
    assert statuses(its) == "passed, passed, failed, passed, passed, passed, passed"
    its = verdict(REFUSED, *checks)
    assert statuses(its) == "passed, passed, not reached, not reached, failed, not reached, not reached"
    its = verdict(LEAKING, holds("one"), fails("on two", gpus=2))
    assert statuses(its) == "passed, passed, failed, passed, failed, passed"
    assert its.failed == GIVEN_BACK
    assert "on 2 simulated GPUs" not in its.words


def test_a_leak_costs_its_own_check(verdict):
    """And no other: not those that need other runs, nor what is printed."""
    on_two, again = check("on two", gpus=2)(lambda run: None), check("again")(lambda run: run.again(gpus=3))
    fail = check("a call may fail")(lambda run: run.must_end_at_failure("cuMemCreate:1=CUDA_ERROR_UNKNOWN"))
    its = verdict(LEAKING, holds("one"), on_two, again, fail)
    assert its.failed == GIVEN_BACK
    assert [title for title, mark in its.checks if mark != "passed"] == [GIVEN_BACK]


@pytest.mark.parametrize(
    ("once_more", "happened"),
    [
        (RELEASE, ""),
        ("cudaDeviceSynchronize();\n" + RELEASE, ""),
        ("", "its answer was not looked at|ended with status 0"),
        ("CHECK(cuMemRetainAllocationHandle(&handle, nullptr));\n" + RELEASE, "before line 17 calls cuMemRet"),
        (f"{RELEASE}std::puts(\"again\");", "ended with status 0"),
        (f"{RELEASE}return lab::end();", ""),
        ("if (cuMemRelease(handle)) return lab::end();\n", "ended with status 0"),
        ("while (cuMemRelease(handle))\n  continue;\n", "it did not end by itself"),
        (f"{RELEASE}return 0;", "ended with status 0"),
    ],
)
def test_a_call_that_failed_may_be_made_once_more(once_more, happened, verdict):
    """All is then as if it had not failed."""
    fail = check("a call may fail")(lambda run: run.must_end_at_failure("cuMemRelease:1=CUDA_ERROR_UNKNOWN"))
    its = verdict(RIGHT.replace(RELEASE, f"if (cuMemRelease(handle)) {{\n{once_more}}}\n"), fail)
    assert bool(its.failed) == bool(happened), its.words
    assert re.search(happened, its.words)


def test_a_call_that_fails_is_made(verdict):
    """Else it is not known what the program does when it fails."""
    fail = check("a call may fail")(lambda run: run.must_end_at_failure("cuMemCreate:2=CUDA_ERROR_UNKNOWN"))
    assert "it did not call cuMemCreate as often as before" in verdict(RIGHT, fail).words


@pytest.mark.parametrize(
    ("told", "status", "is_right"),
    [
        ("ab c", 0, True),
        ("ac b", 0, True),  # of two threads
        ("ba c", 0, False),
        ("a c", 0, False),
        ("a c", 1, True),  # the last was cut off
        ("b c", 1, False),
        ("abb c", 1, False),
    ],
)
def test_lines_fit_the_calls_that_were_seen(told, status, is_right):
    """Each thread's, none left out, none added: here a and b of thread 1, and c of thread 2."""
    lines = [{"thread": 2 if name == "c" else 1, "call": name} for name in told.replace(" ", "")]
    seen = [(1, "a"), (2, "c"), (1, "b")]
    assert fits([*lines, {"thread": 1, "call": "exit"}], Ended(status, "", "", "", b"", seen)) == is_right


def test_what_hangs_hangs_once(verdict):
    """A check that would need one run more is not reached."""
    body = "int gpus = 0;\nCHECK(cudaGetDeviceCount(&gpus));\nif (gpus > 1) pause();\nreturn lab::end();"
    its = verdict(body, check("on two", gpus=2)(lambda run: None), check("on three", gpus=3)(lambda run: None))
    assert statuses(its) == "passed, not reached, not reached, failed, passed, passed"


def test_what_comes_behind_a_failure_is_shown(verdict):
    """What holds, what fails, and what relies on what does not hold; of a run that was stopped not what holds."""
    needs_another = check("needs another run")(lambda run: run.again(gpus=2))
    relies = check("relies on the first")(lambda run: run.calls("cudaMalloc").nothing)
    on_two = check("on two", gpus=2)(lambda run: None)
    checks = fails("first"), needs_another, fails("fails too", "cuMemCreate"), relies, on_two
    its = verdict(RIGHT, *checks)
    assert statuses(its) == "passed, failed, passed, failed, not reached, passed, passed, passed, passed"
    assert its.words.count("What happened:") == 1
    its = verdict(REFUSED, *checks)
    assert [title for title, mark in its.checks if mark == "passed"] == [BUILT]
    assert [title for title, mark in its.checks if mark == "failed"] == ["fails too", ENDED]


def test_what_fails_in_the_first_run_is_no_other_checks(verdict):
    """A check of another run that wants the same is not reached; one that wants something else fails."""
    wanted = fails("wanted").func
    same = check("the same on two", gpus=2)(wanted)

    @check("another on two", gpus=2)
    def another(run):
        raise run.wrong("something else", "nothing")

    its = verdict(RIGHT, check("wanted")(wanted), same, another)
    assert statuses(its) == "passed, failed, not reached, failed, passed, passed, passed"
    assert statuses(verdict(RIGHT, holds("one"), same)) == "passed, passed, failed, passed, passed, passed"


@pytest.mark.parametrize(
    ("end", "is_left"),
    [
        ("return lab::end() + 5;", True),
        ("return lab::end() + 1;", True),
        ('std::fputs("done\\n", stderr);\nreturn 5;', True),
        ('std::fputs("done\\n", stderr);\nreturn 0;', True),
        ('EXPECT(!handle, "no handle");', False),
        ("CHECK(cuMemRelease(1));", False),
        ('throw "done";', False),
    ],
)
def test_who_leaves_without_a_reason_earns_nothing(end, is_left, verdict):
    """A program that ends by a status of its own has not done the task, whatever it has called before."""
    its = verdict(RIGHT.replace("CHECK(cuMemRelease(handle));\nreturn lab::end();", end), holds("it is created"))
    earned = [title for title, mark in its.checks if mark == "passed"]
    assert earned == ([BUILT] if is_left else [BUILT, "it is created"])


def test_a_map_of_memory_is_shown(verdict):
    """At the failure, in five lines, with the program's name; of a leak, what was there in the end."""
    body = """
        CUmemAllocationProp properties = {};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;
        CHECK(cuMemAddressReserve(&address, 64 << 20, 0, 0, 0));
        for (CUdeviceptr at = address; at < address + (6 << 20); at += 2 << 20) {
          CHECK(cuMemCreate(&handle, 2 << 20, &properties, 0));
          CHECK(cuMemMap(at, 2 << 20, 0, handle, 0));
          if (at > address) CHECK(cuMemRelease(handle));
        }
        CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
        CHECK(cuMemSetAccess(address, 2 << 20, &access, 1));
        CHECK(cuMemUnmap(address + 1, 2 << 20));
    """
    assert [re.sub("^0x[0-9a-f]+ ", "", line).strip() for line in verdict(body).memory] == [
        "2 MiB  address: memory of GPU 0, #1; GPU 0 reads <- here",
        "2 MiB  address + 2 MiB: memory of GPU 0, #2; nobody has access",
        "2 MiB  address + 4 MiB: memory of GPU 0, #3; nobody has access",
        "58 MiB  address + 6 MiB: reserved; nothing is mapped",
    ]
    many = body.replace("at += 2 << 20", "at += 4 << 20").replace("(6 << 20)", "(48 << 20)")
    lines = verdict(many.replace("cuMemUnmap(address + 1,", "cuMemUnmap(address + (40 << 20) + 1,")).memory
    assert (len(lines), [line.endswith(" <- here") for line in lines].count(True)) == (5, 1)
    assert "and 20 more" in lines[-1]
    assert max(map(len, lines)) <= 100
    (line,) = verdict(LEAKING).memory
    assert re.fullmatch(r"no address +2 MiB  memory of GPU 0, #1; not mapped, a handle holds it", line)


def test_a_leak_of_another_run_is_told(verdict):
    """It is told rather than what follows from it, and not in place of a call that is to blame."""
    body = "int gpus = 0;\nCHECK(cudaGetDeviceCount(&gpus));\n"
    body += RIGHT.replace("CHECK(cuMemRelease(handle));", "if (gpus == 1) CHECK(cuMemRelease(handle));")
    its = verdict(body, fails("on two", gpus=2))
    assert its.failed == GIVEN_BACK
    assert re.search("cuMemCreate.*\non 2 simulated GPUs:\n.*\n.*its handle is still held", its.words)
    assert verdict(body, fails("on two", "cuMemCreate", gpus=2)).failed == "on two"


def test_a_check_with_a_mistake_is_told_as_that(verdict):
    """It is told as that, and not as the student's; unless the program had stopped before."""
    mistaken, stops = check("something")(lambda run: [][0]), "CHECK(cuMemRelease(1));"
    with pytest.raises(CannotJudge, match=r"'something' has a mistake.*: IndexError: .*checks_test.py:\d+\)$"):
        verdict(RIGHT, mistaken)
    assert verdict(stops, mistaken).failed == ENDED
    with pytest.raises(CannotJudge, match="AttributeError"):
        verdict(stops, check("something")(lambda run: run.nonsense()))


@pytest.mark.parametrize(
    ("body", "failed", "said"),
    [
        ('TODO("do it");', ENDED, r"\.cu:7\n +TODO\(.do it.\);\n.*\nWhat happened: +still to do: do it\n"),
        (
            'std::puts("more");\nreturn lab::end();',
            PRINTED,
            r"it prints\n +0 KiB.*\n +OK\n.*it printed more; .*\n +more",
        ),
        (f"{EVENT}{STREAM}return lab::end();", GIVEN_BACK, "cudaStreamCreate: it was never destroyed"),
        (f"{GRAPH}return lab::end();", GIVEN_BACK, "cudaGraphInstantiate: it was never destroyed"),
        ("CHECK(cudaDeviceReset());\nreturn 0;", GIVEN_BACK, r"\.cu:7\n.*\n.*\n.*cudaDeviceReset destroys all"),
        ("int fd = dup(0);\nclose(fd);\nclose(fd);", ENDED, r"\.cu:9\n.*\n.*\n.*close was refused: EBADF"),
        (REFUSED, ENDED, "cuMemRelease was refused.*\n +line 16 has released this handle before\n"),
        (RIGHT.replace(FREE, 2 * FREE), ENDED, "\n +line 15 has freed these addresses before\n"),
        (RIGHT.replace(RELEASE, "CHECK(cuMemRelease(1));\n"), ENDED, r"cuMemRelease was refused: \w+\nIn words"),
    ],
    ids="to_do printed stream graph reset descriptor released_before freed_before never_there".split(),
)
def test_it_is_told_what_went_wrong(body, failed, said, verdict):
    its = verdict(body)
    assert its.failed == failed
    assert re.search(said, its.words)


def test_kernels_begin_late(verdict):
    """A kernel begins when the program waits for it, or after its time; what it was given is known."""
    body = """
        void* memory = nullptr;
        CHECK(cudaMalloc(&memory, 4096));
        lab::fill_kernel<int><<<1, 32>>>(static_cast<int*>(memory), 1024, 7);
        CHECK(cudaDeviceSynchronize());
        lab::fill_kernel<int><<<1, 32>>>(static_cast<int*>(memory), 1024, 7);
        while (cudaStreamQuery(nullptr) != cudaSuccess) continue;
        CHECK(cudaFree(memory));
        auto work = [] {  // lines of threads are put in the order of their changes
          CUdeviceptr address;
          CHECK(cudaSetDevice(0));
          for (int i = 0; i < 200; ++i) {
            CHECK(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));
            CHECK(cuMemAddressFree(address, 2 << 20));
          }
        };
        std::thread first(work), second(work);
        first.join();
        second.join();
        return lab::end();
    """
    seen = []

    @check("late")
    def late(run):
        address = int(run.calls("cudaMalloc")[0].outputs["devPtr"], 16)
        seen.extend((it.range == (address, 4096), it.waiter and it.waiter.name) for it in run.kernels)

    assert verdict(body, late).words == ""
    assert seen == [(True, "cudaDeviceSynchronize"), (True, None)]


def test_constants_are_changed_all_at_once():
    """What one puts in is not what another replaces."""
    assert changed(["f(3, 5)"], {"3": "5", "5": "7"}) == ["f(5, 7)"]


def test_what_is_said_has_the_students_names(tmp_path):
    """A call that was made global is told as it stands in the file."""
    (tmp_path / "a.cu").touch()
    said = Program(tmp_path / "a.cu").at_lines_of_file("::read(1), CHECK(::cuMemMap(0)), mine::read(2), ::lab::count")
    assert said == "read(1), CHECK(cuMemMap(0)), mine::read(2), lab::count"


def test_the_starters_calls_are_the_systems():
    """Whatever a part declares by the same name; a member's is another."""
    told = [
        "if (read(socket, &byte, 1) == 1) CHECK(cuMemUnmap(address, size));",
        "file.close();",
        "int write_back(int);",
    ]
    assert changed(told, {}) == [told[0].replace("read(", "::read(").replace("cuMem", "::cuMem"), *told[1:]]


@pytest.mark.parametrize(
    ("old", "new", "remark"),
    [
        (" bytes = ", "\n  bytes  =  // mine\n   ", "not judged"),
        ('#include "../lab.h"', '#include <atomic>\n#include "../lab.h"', ""),
        ("int main() {", "// mine: TODO cudaMalloc\nint main() {", ""),
        ("bytes, 42)", "bytes, 43)", "not judged"),
        ("  return lab::end();", "", ""),
    ],
)
def test_what_stands_outside_the_marks_is_the_starters(old, new, remark):
    """It is the starter's, whatever the student's file has there; what is included is kept."""
    assert old in SOLUTION
    made = spliced(STARTER, SOLUTION.replace(old, new, 1), "a.cu", ({}, {"changes": {"42": "44"}}))
    assert remark in made.remark
    assert bool(remark) == bool(made.remark)
    for body, value in zip(made.bodies, ("42", "44"), strict=True):
        assert f"  ::lab::fill<char>(address, bytes, {value});" in body
        assert "return ::lab::end();" in body
    assert ("<atomic>" in new) == ("#include <atomic>" in made.includes)


MARK = "// >>> your part: make the memory"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("}\nvoid mine() {", "'}' closes what was not opened"),
        ("if (true) {", "'{' has no end in this part"),
        ("/* what follows", "this comment, text or sign has no end"),
        ('"what follows', "this text has no end"),
        ("#if 0", "no #if here"),
        ("/* its\n*/ #if 0", "no #if here"),
        ("#define OPEN /*\n*/ {\n}", "a directive must end in its line"),
        ("#define OPEN {\n}", "has no end in this directive"),
        ("#define GLUE(a, b) a##b", "no ## here"),
        ('extern /* */ "C" long write(int, const void*, size_t);', "no function of the system has another meaning"),
        ("#pragma weak write = mine", "no #pragma here"),
        ("int __CONCAT(ex, tern);", "no ## here"),
        ("struct Mine {};\nconst char* name = typeid(Mine).name();", "what it is to do is the same in each run"),
        ("int a = 0; <% int b = 0; %>", "write it plainly"),
        ('auto text = R"x(\n)y";', "this comment, text or sign has no end"),
        ("int a = 0; %: if", "write it plainly"),
        ("int a <\\\n: 1 :> = 0;", "write it plainly"),
        ("#define OPEN \\\n  {\n}", "has no end in this directive"),
        ("int a = 0; \0 }", "has no end in this part"),
        ('R"\x01( )#" } )\x01"', "has no end in this part"),
        ("#line 5000", "no #line here"),
        ("#li\\\nne 5000", "a directive must end in its line"),
        ("// the end \\ ", "at the end of this line"),
        ("1'é /* ')\n// */", "no end in this line"),
        ('asm(".loc 2 1000040 1; call *%0");', "write it plainly"),
        ("namespace check {}", "is the starter's"),
        ("void __device_stub_mine() {}", "this name is the compiler's"),
        ('const char* main = getenv("LAB_MAIN");', "what it is to do is the same in each run"),
        ("struct check {};", "is the starter's"),
        ('_Pragma("push_macro(\\"CHECK\\")")', "no _Pragma here"),
        ('#pragma pop_macro("CHECK")', "no #pragma here"),
        ('#include "mine.h"', "is not looked at: write it here"),
        ("#include </etc/passwd>", "is not looked at: write it here"),
        ("# include MINE", "is not looked at: write it here"),
        ("const int a = 1'000'000, b = '{'; const char* c = \"}\", d = L'('; // é }", ""),
        ("#define CHECK(call) (call)\n#include <chrono>  // mine", ""),
        ("#define TWICE(call) \\\n  (call); \\\n  (call)", ""),
        ('const size_t größe = 変数(R"x({ " /*\n)x", u8"é", 7 % 3);', ""),
        ('asm volatile("fence.proxy.alias;\\n\\t" "fence.sc.sys;" ::: "memory");', ""),
        ("#pragma unroll\nfor (int i = 0; i < 2; ++i) {\n/* one\n  two */ }", ""),
        ("std::vector<::CUdeviceptr> all;", ""),
    ],
)
def test_a_part_is_whole(lines, words):
    """What could end the starter's code, hide it or give it another meaning is refused, and where."""
    text = SOLUTION.replace(MARK, f"{MARK}\n{lines}")
    if not words:
        spliced(STARTER, text, "a.cu", ({},))
        return
    with pytest.raises(NotWhole, match=re.escape(words)) as refused:
        spliced(STARTER, text, "a.cu", ({},))
    first = SOLUTION[: SOLUTION.index(MARK)].count("\n") + 2
    assert refused.value.line - first < 1 + lines.count("\n")


def test_a_function_of_the_system_stays(tmp_path):
    """Whatever a part writes for it; the simulator calls it, too."""
    source = tmp_path / "program.cu"
    source.write_text(f'extern "C" int usleep(unsigned) {{ return 0; }}\n{BEFORE}return lab::end();\n}}\n')
    with Program(source) as its:
        built, said = its.build()
    assert not built
    assert "it defines usleep, a function of the system" in said


def test_a_part_ends_with_its_last_line():
    text = SOLUTION.replace("&access, 1));\n", "&access, 1)); \\\n")
    with pytest.raises(NotWhole, match="at the end of this line"):
        spliced(STARTER, text, "a.cu", ({},))


def test_a_part_needs_its_marks():
    with pytest.raises(NotWhole, match="the marks are not those"):
        spliced(STARTER, SOLUTION.replace("// <<<", "", 1), "a.cu", ({},))


@pytest.mark.parametrize("name", ["bytes", "CHECK"])
def test_a_macro_keeps_its_meaning_outside(name):
    text = SOLUTION.replace(MARK, "// >>> mine\n#define bytes 7\n#undef CHECK")
    body = spliced(STARTER, text, "a.cu", ({},)).bodies[0]
    assert body.index(f'#pragma push_macro("{name}")') < body.index("#define bytes")
    assert body.index(f'#pragma pop_macro("{name}")') > body.index("#undef CHECK")


def test_what_real_gpus_print_is_judged(verdict):
    right = verdict(RIGHT, real=Ended(0, "", OUTPUT, "", b""))
    assert (right.failed, right.checks[-1]) == ("", (REAL, "passed"))
    for wrong in (Ended(1, "", OUTPUT, "", b""), Ended(0, "", "OK\n", "", b""), Ended(0, "time", OUTPUT, "", b"")):
        assert verdict(RIGHT, real=wrong).failed == REAL
    skipped = verdict(RIGHT, real=Ended(77, "", "SKIP: no GPU; get one\n", "", b""))
    assert (skipped.status, skipped.checks[-1]) == ("passed", (PRINTED, "passed"))
    assert "SKIP: no GPU" in skipped.remarks
