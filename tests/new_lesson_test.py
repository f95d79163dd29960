#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""A lesson that is added has all that a lesson has: new_lesson_test.py BUILD_DIRECTORY CMAKE [OPTIONS...]

In a copy of the checkout a small lesson 08 is written, configured with these options and built. Its tests have the
names of lesson 01's, and pass on the simulator, which is taken from BUILD_DIRECTORY; ./run.sh knows it; and what was
forgotten is told in words.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

from tests.lesson_test import fail
from tests.setup_test import copy_checkout, scratch

LESSON = "08_trial"
# Not run here: what takes the machine's GPU, and what needs a second simulator.
LEFT_OUT = rf"^({LESSON}|{LESSON}\.trial_broken|sanitizer\..*|simulator\.sanitized\..*)$"

HEAD = """// SPDX-License-Identifier: MIT-0
//
// 08 {title}
//
// Build it alone:  nvcc -std=c++17 {name}.cu -o {name} -lcuda
#include "../common/check.h"

static const char usage[] = "usage: {name}\\n";

int main(int argc, char** argv) {{
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  check::arguments(argc, argv, usage);
  check::require_gpus(1);
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  REQUIRE(supported, "no virtual memory management; use bare metal");
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp properties = {{}};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t size;
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
"""
TAIL = """  std::printf("OK\\n");
  return 0;
}
"""
# Each step: its title, its lines, and what it prints.
STEPS = [
    (
        "Map a granule",
        """
  size_t free_at_start, free_now, total;
  CHECK(cuMemGetInfo(&free_at_start, &total));
  CUdeviceptr range;
  CHECK(cuMemAddressReserve(&range, size, 0, 0, 0));
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemMap(range, size, 0, handle, 0));
  CUmemAccessDesc descriptor = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemSetAccess(range, size, &descriptor, 1));
""",
        "",
    ),
    (
        "Write and read it",
        """
  int found = 0;
  CHECK(cudaMemset(reinterpret_cast<void*>(range), 1, sizeof found));
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(range), sizeof found, cudaMemcpyDeviceToHost));
  std::printf("    found 0x%x\\n", found);
""",
        "    found 0x1010101\n",
    ),
    (
        "Tear down",
        """
  CHECK(cuMemUnmap(range, size));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(range, size));
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_at_start, "%zu bytes are free, not %zu", free_now, free_at_start);
""",
        "",
    ),
]
REFUSED = """
  {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    REFUSED(CUDA_ERROR_INVALID_VALUE, %s);
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    CHECK(cuMemAddressReserve(&range, size, 0, 0, 0));
    std::printf("    right: %s\\n");
    CHECK(cuMemAddressFree(range, size));
    CHECK(cuMemRelease(handle));
  }
"""
MISTAKES = [
    (title, REFUSED % (call, right), f"    {call}\n      -> CUDA_ERROR_INVALID_VALUE\n    right: {right}\n")
    for title, call, right in (
        ("Half a granule of memory", "cuMemCreate(&handle, size / 2, &properties, 0)", "whole granules"),
        ("Half a granule of addresses", "cuMemAddressReserve(&range, size / 2, 0, 0, 0)", "whole granules here, too"),
        ("No addresses", "cuMemAddressReserve(&range, 0, 0, 0, 0)", "one granule at least"),
    )
]
ABOUT = {
    "skips": {"no_vmm": "no virtual memory management"},
    "pictures": {"reservations": {"1": ["range"]}, "moments": {"after": 2, "step_1": 1, "step_3": 3}},
    "mistakes": {
        "nobody is let in => cudaErrorInvalidValue|cudaErrorIllegalAddress": [
            "-   CHECK(cuMemSetAccess(range, size, &descriptor, 1));"
        ],
        "another value => found 0x2020202": ["- (range), 1, sizeof found", "+ (range), 2, sizeof found"],
        "the reservation is not freed => LEAK": ["-   CHECK(cuMemAddressFree(range, size));"],
    },
    "try_it": {
        f"set it to {value} => found 0x{value * 0x01010101:x}": [
            "-   CHECK(cudaMemset(reinterpret_cast<void*>(range), 1, sizeof found));",
            f"+   CHECK(cudaMemset(reinterpret_cast<void*>(range), {value}, sizeof found));",
        ]
        for value in (2, 3, 4)
    },
    "wrong_outputs": [f"found 0x1010101 => found 0x{number}" for number in range(20)],
}


def program(name, title, steps):
    text = HEAD.format(name=name, title=title)
    for number, (step, lines, _) in enumerate(steps, 1):
        text += f"\n  // [{number}] {step}\n  std::printf(\"[{number}] {step}\\n\");{lines.rstrip()}\n"
    return text + TAIL


def output(steps):
    lines = [f"[{number}] {step}\n{printed}" for number, (step, _, printed) in enumerate(steps, 1)]
    return "".join(["# Recorded: on no GPU\n", *lines, "OK\n"])


def listing(file, part=""):
    """The comment under which docs/tools/fill_pages.py puts this part of a file."""
    return f"<!-- listing: {file}{part and ' '}{part} -->\n\n"


def fold(title, text):
    return f"<details>\n<summary>{title}</summary>\n\n{text}</details>\n\n"


def page():
    text = "<!-- SPDX-License-Identifier: CC-BY-4.0 -->\n# 08 Trial\n\n![](pictures/after.svg)\n\n"
    text += "## Run it\n\n" + fold("What it prints", listing("expected_output.txt")) + "## Before you run it\n\n"
    for number in (1, 2, 3):
        text += fold(
            f"{number}. What does it find?", "What was set.\n\n" + listing("expected_output.txt", 'line "found"')
        )
    for number, (step, _, _) in enumerate(STEPS, 1):
        text += f"## [{number}] {step}\n\n"
        text += listing("trial.cu", f"[{number}]")
        text += "" if number == 2 else f"![](pictures/step_{number}.svg)\n\n"
    text += "## Step through it\n\n`./run.sh --view build/bin/trial` shows it.\n\n<!-- view: trial -->\n\n"
    text += "## Try it\n\n"
    for title in (title.partition(" => ")[0] for title in ABOUT["try_it"]):
        text += fold(title, listing("lesson.json", f'try "{title}"'))
    text += "## Break it on purpose\n\n"
    for number, (step, _, _) in enumerate(MISTAKES, 1):
        files = ("trial_broken.cu", "trial_broken_expected_output.txt")
        text += fold(f"{number}. {step}: whole granules only", "".join(listing(file, f"[{number}]") for file in files))
    return text + "## What to remember\n\n- Whole granules.\n\n## Practise it\n\nNo lab.\n\n## Next\n\nNone.\n"


def run(*command, status=0, says="", **options):
    """Runs it; it must end with this status, and say this, however the lines are broken."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if bool(done.returncode) != bool(status) or says not in re.sub(r"\s+", " ", done.stdout):
        fail(f"{' '.join(words)}: status {done.returncode}, should say {says!r}:\n{done.stdout}")
    return done.stdout


def put(file, old, new):
    text = file.read_text()
    if old not in text:
        fail(f"{file} has no {old!r}")
    file.write_text(text.replace(old, new, 1))


def main(build, cmake, *options):
    with scratch("new lesson ") as directory:
        add_and_try(copy_checkout(directory.resolve() / "copy"), pathlib.Path(build), cmake, options)


def add_and_try(copy, build, cmake, options):
    lesson, made, python = copy / LESSON, copy / "build", [sys.executable, "-B"]
    lesson.mkdir()
    (lesson / "trial.cu").write_text(program("trial", "Trial: is it there?", STEPS))
    (lesson / "trial_broken.cu").write_text(program("trial_broken", "Trial, broken", MISTAKES))
    (lesson / "expected_output.txt").write_text(output(STEPS))
    (lesson / "trial_broken_expected_output.txt").write_text(output(MISTAKES))
    (lesson / "README.md").write_text(page())
    configure = cmake, "-S", copy, "-B", made, *options
    run(*configure, status=1, says="The lesson 08_trial has no lesson.json")
    (lesson / "lesson.json").write_text(json.dumps(ABOUT))
    run(*configure)
    run(cmake, "--build", made, "--target", LESSON)
    for file in [build / "bin" / "vmmsim", *(build / "simulator").glob("lib*.so*")]:
        shutil.copy2(file, made / file.relative_to(build))

    # The same tests as lesson 01 has, and its programs among those of the tests for all.
    ctest = [pathlib.Path(cmake).with_name("ctest"), "--test-dir", made]
    listed = json.loads(run(*ctest, "--show-only=json-v1"))["tests"]
    tests = {test["name"]: test.get("command", []) for test in listed}
    its = {name for name in tests if "trial" in name}
    of_01 = {name for name in tests if "vmm_basics" in name} - {"01_vmm_basics.calls"}  # it has calls of real GPUs
    wanted = {name.replace("01_vmm_basics", LESSON).replace("vmm_basics", "trial") for name in of_01}
    if its != wanted or len(its) < 15:
        fail(f"missing tests: {wanted - its}; surplus: {its - wanted}")
    machines = [name for name in tests if name.startswith("skips.sim.")]
    for name, programs in (("simulator.trace", 1), *((machine, 2) for machine in machines)):
        if sum("bin/trial" in word for word in tests[name]) != programs:
            fail(f"{name} does not have its programs: {tests[name]}")

    # What is made by a command, and what is written by hand: without it, the tests say what is missing.
    run(
        *python,
        "tests/on_simulator/broken_programs_test.py",
        "record",
        "build/bin/vmmsim",
        "build/bin/trial_broken",
        cwd=copy,
    )
    run(*tests["docs.pictures"], LESSON, status=1, says="pictures/step_1.svg is not what 08_trial does now")
    run(*python, "-m", "docs.tools.draw_pictures", "--write", "build/bin", LESSON, cwd=copy)
    run(*tests["docs.listings"], status=1, says="is not what the file has now")
    run(*python, "-m", "docs.tools.fill_pages", "--write", cwd=copy)
    run(*tests["docs.calls"], status=1, says="calls_test.py write renews them")
    run(*python, "tests/docs/calls_test.py", "write", ".", cwd=copy)
    run(*tests["docs.hardware"], status=1, says="docs/hardware.md, What a lesson needs")
    needs = f"- [08](../{LESSON}/README.md): `VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`.\n"
    put(copy / "docs/hardware.md", "- `compressible`", needs + "- `compressible`")
    for file, old, new in (
        (
            "README.md",
            "\n\n- **[Labs](labs",
            f"\n| [08 Trial]({LESSON}/README.md) | it is there | 1 GPU | 1 min |",
        ),
        ("docs/index.md", "\n\nBy what hardware", f"\n| try | [08 Trial](../{LESSON}/README.md) | 1 GPU |"),
    ):
        run(*tests["docs.pages"], status=1, says=f"{file} does not lead to {LESSON}")
        put(copy / file, old, new + old)

    # Now all of them pass.
    for name in ("wrong_outputs", "docs.pages", "docs.listings", "docs.calls", "docs.hardware", "docs.pitfalls"):
        run(*tests[name])
    run(*tests["docs.pictures"], LESSON)
    for machine in machines:  # without the programs of other lessons
        run(
            *(
                word
                for word in tests[machine]
                if not word.startswith(f"{made}/") or word.endswith(("/vmmsim", "/trial", "/trial_broken"))
            )
        )
    done = run(*ctest, "-R", "trial|^docs.book$", "-E", LEFT_OUT, "--no-tests=error", "--output-on-failure")
    print(done, end="")
    skipped = re.findall(r"(\S+) \.*\*+Skipped", done)
    of_tools = {f"lint.{LESSON}/trial.cu", f"lint.{LESSON}/trial_broken.cu", "docs.book", f"docs.notebook.{LESSON}"}
    if set(skipped) - of_tools:
        fail(f"skipped: {skipped}")

    run(*python, "-m", "scripts.run_lessons", "--help", cwd=copy, says=LESSON)
    run(*python, "-m", "scripts.run_lessons", "--sim", "08", cwd=copy, says=f"{LESSON} 8 simulated GPUs OK")


if __name__ == "__main__":
    main(*sys.argv[1:])
