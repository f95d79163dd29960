#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Draws the address spaces of the lessons, from what the programs did: draw_pictures.py [--write] BIN

Each lesson in the directory BIN runs on BIN/vmmsim under --trace. Which step of the program made a call tells its line
of the source; what the calls changed, vmmsim/trace/model.py replays. For each picture that lesson.json names the
state is drawn into NN_lesson/pictures/, and what the step changed is marked. The pages show these files, and the
pictures' own words are the alt texts.

From the calls of lesson 02, with no arguments, come two pictures more: docs/pictures/growable.svg, which moves, and
growth.svg beside the lesson's others. The other pictures of docs/pictures are drawn by hand; their style is the same.

With --write the files are written, and the alt texts in the pages. Without it nothing is: every file and every alt text
must be what would be written, and no other file be there. Exit status 0, 1 if something is not as it should be, 2 bad
arguments.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from docs.tools import fill_pages
from docs.tools.growth import Moving, NotThisStory, Scale, Story
from scripts.run_lessons import lessons, quick
from vmmsim.trace import Machine
from vmmsim.trace import source_places as places
from vmmsim.view import NoEngine, NoRule, Scene, picture_file, styled, words_of

ROOT = pathlib.Path(__file__).resolve().parents[2]

GROWABLE, MOVING = "02_growable", ROOT / "docs" / "pictures" / "growable.svg"


class Failed(Exception):
    pass


@dataclasses.dataclass
class Moment:
    """The end of a step, or where the nth call of a name in this step has given this answer: then in words, too."""

    step: int
    words: str = ""
    call: str = ""
    nth: int = 1
    answer: str = "CUDA_SUCCESS"
    rank: int = 0


class Lesson:
    """What lesson.json says of the pictures of a lesson.

    Two GPUs where a lesson wants more than one: more are harder to read, and show nothing else.
    """

    def __init__(self, lesson):
        about = json.loads((ROOT / lesson / "lesson.json").read_text()).get("pictures")
        if not about:
            raise Failed("its lesson.json says nothing of pictures: name their moments there")
        self.gpus = about.get("gpus", 1)
        self.processes = about.get("processes", [""])
        # By step, or by "STEP of PROCESS": the variables for the reservations made in it.
        self.names = about["reservations"]
        # By file: the moment, or the step at whose end it is; "step_..." shows what the step has changed so far.
        self.pictures = {
            file: Moment(one) if isinstance(one, int) else Moment(**one) for file, one in about["moments"].items()
        }
        self.arguments = quick(lesson[3:])


def source_of(lesson):
    return ROOT / lesson / f"{lesson[3:]}.cu"


def banners(lesson):
    """The steps of a program: number, title, and which lines: to the next banner or the end of the function."""
    source = source_of(lesson)
    found = fill_pages.banners(source)
    ends = [number for number, line in enumerate(source.read_text().splitlines(), 1) if line.startswith("}")]
    stops = sorted([*ends, *(at for at, _, _ in found)])
    return [(number, title, range(at, next(stop for stop in stops if stop > at))) for at, number, title in found]


def traced(lesson, about, directory):
    """The calls: (step, line of the trace), by steps."""
    program = directory / lesson[3:]
    if program.stat().st_mtime < source_of(lesson).stat().st_mtime:
        raise Failed(f"{program} is older than its source: build it")
    with tempfile.NamedTemporaryFile() as trace:
        command = [directory / "vmmsim", "--gpus", str(about.gpus), "--trace", trace.name, program, *about.arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        lines = [json.loads(line) for line in trace.read().decode().splitlines()]
    if done.returncode or done.stderr:
        raise Failed(f"{program} ended with status {done.returncode}\n{done.stdout}{done.stderr}")

    # A frame's address is that of the return: one less lies in the call. Inlined functions have more lines than one.
    frames = [
        [int(caller.split("+")[1], 16) - 1 for caller in line["callers"] if caller.startswith(program.name + "+")]
        for line in lines
    ]
    source = source_of(lesson).name
    lines_of = {
        address: [number for path, number, _ in found if pathlib.Path(path).name == source]
        for address, found in places(program, itertools.chain(*frames)).items()
    }
    if not any(lines_of.values()):
        raise Failed(f"{program} does not tell the lines of its source: build it with -Xcompiler=-g1, as CMake does")

    # A call belongs to the step in which the innermost of its frames stands. What stands in none, to the step before.
    ranges, now, calls = banners(lesson), {}, []
    for line, addresses in zip(lines, frames, strict=True):
        of_frames = [
            number
            for address in addresses
            for at in lines_of.get(address, ())
            for number, _, part in ranges
            if at in part
        ]
        step = now[line["pid"]] = max(now.get(line["pid"], 0), of_frames[0] if of_frames else 0)
        calls.append((step, line))
    # Processes run side by side, and each step is a barrier: what they do in one step comes before all of the next.
    return sorted(calls, key=lambda call: call[0])


def in_order(about, calls):
    """The processes that changed something, by the GPU that each works on: rank 0 has GPU 0."""
    device_of = {}
    for _, line in calls:
        if line["changes"] and line["device"] >= 0:
            device_of.setdefault(line["pid"], line["device"])
    pids = sorted(device_of, key=device_of.get)
    if len(pids) != len(about.processes):
        raise Failed(f"{len(pids)} processes have changed something, not {len(about.processes)}")
    return pids


def moments(about, calls, pids):
    """For each picture between which two calls its changes lie, counted from 0, and those that changed something."""
    ends, at, counts = {0: 0}, {}, collections.Counter()
    for count, (step, line) in enumerate(calls, 1):
        key = step, line["call"], line["result"], pids.index(line["pid"]) if line["pid"] in pids else None
        counts[key] += 1
        for name, moment in about.pictures.items():
            if key == (moment.step, moment.call, moment.answer, moment.rank) and counts[key] == moment.nth:
                at[name] = count
        ends[step] = count

    def end_of(step):
        return ends[max(number for number in ends if number <= step)]

    result, last, last_name = {}, Moment(0), ""
    for name, moment in about.pictures.items():
        if moment.call and name not in at:
            raise Failed(f"{name}: in step {moment.step} no {moment.call} has answered {moment.answer}")
        now, before = at.get(name, end_of(moment.step)), end_of(moment.step - 1)
        if name.startswith("step_") and last.step == moment.step:  # more than one of this step
            before = at[last_name]
        changing = [
            line
            for _, line in calls[before:now]
            if any(change["kind"] not in ("allocate", "free", "peer") for change in line["changes"])
        ]
        result[name] = before, now, changing
        last, last_name = (moment, name) if name.startswith("step_") else (Moment(0), "")
    return result


def names_of(about, calls, pids):
    """For each process what the program calls its reservations, in the order of their making."""
    names, left = {pid: [] for pid in pids}, {}
    for step, line in calls:
        if any(change["kind"] == "reserve" for change in line["changes"]):
            pid = line["pid"]
            key = f"{step} of {about.processes[pids.index(pid)]}"
            key = key if key in about.names else str(step)
            of_step = left.setdefault((step, pid), list(about.names.get(key, [])))
            names[pid].append(of_step.pop(0) if of_step else "")
    return names


def drawn(lesson, about, directory):
    """Each picture of a lesson by its file's name: the file, and its words."""
    calls = traced(lesson, about, directory)
    pids = in_order(about, calls)
    names, result = names_of(about, calls, pids), {}
    wanted, machine, begun = moments(about, calls, pids), Machine(), {}
    titles = {number: title for number, title, _ in banners(lesson)}

    def name_of(pid, reservation):
        return names[pid][reservation.nth]

    for count in range(len(calls) + 1):
        if count:
            machine.line(calls[count - 1][1])
        for name, (before, now, changing) in wanted.items():
            shows_changes = name.startswith("step_")  # the others are the two at the top of the page
            if count == (before if shows_changes else now):
                begun[name] = machine.since()
            if count == now:
                title = title_of(name, about.pictures[name], titles)
                calls_shown = [line["call"] for line in changing] if shows_changes else []
                scene = Scene(range(about.gpus), about.processes, machine, begun[name], pids, name_of)
                machine.forget_since(begun[name])
                result[name] = picture_file(scene, title, calls_shown), words_of(scene, title)
    return {name: result[name] for name in wanted}


def growth(directory):
    """The story of the buffer that grows. Steps in which a call is refused leave it as it was, and are left out."""
    about = Lesson(GROWABLE)
    about.arguments = []
    calls = traced(GROWABLE, about, directory)
    refused = {step for step, line in calls if line["result"] not in ("CUDA_SUCCESS", "cudaSuccess", "")}
    return Story(line for step, line in calls if step not in refused)


def title_of(name, moment, titles):
    if moment.call:
        return f"In step {moment.step}: {moment.words}"
    if name == "before":
        return f"Before step {moment.step + 1}"
    return f"After step {moment.step}" + (f": {titles[moment.step]}" if name.startswith("step_") else "")


def with_alt_texts(page, words):
    """The page, with the words of each picture as its alt text."""

    def renewed(match):
        return f"![{words[match[2]]}](pictures/{match[2]}.svg)" if match[2] in words else match[0]

    return re.sub(r"!\[((?:[^\[\]]|\[[^\]]*\])*)\]\(pictures/(\w+)\.svg\)", renewed, page)


def put(files, what, arguments):
    """Writes the files, or says which of them are not as they should be."""
    for file, right in files.items():
        if arguments.write:
            file.parent.mkdir(exist_ok=True)
            file.write_text(right)
        elif not file.exists() or file.read_text() != right:
            again = f"{sys.argv[0]} --write {arguments.directory}"
            yield f"{file} is not {what}: look at it, then run {again}"


def main():
    parser = argparse.ArgumentParser(description="Draws the pictures of the lessons, or checks that they are right.")
    parser.add_argument("--write", action="store_true", help="write the files, not only compare")
    parser.add_argument("directory", type=pathlib.Path, metavar="BIN", help="where vmmsim and the lessons are")
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="these only, like 01_vmm_basics")
    arguments = parser.parse_args()
    for name in arguments.lessons:
        if name not in lessons():
            parser.error(f"no such lesson: {name}")
    wrong = []
    for lesson in arguments.lessons or lessons():
        try:
            pictures = drawn(lesson, Lesson(lesson), arguments.directory)
            moving = {}
            if lesson == GROWABLE:
                story = growth(arguments.directory)
                moving = {MOVING: Moving(story).svg()}
                pictures["growth"] = Scale(story).svg(), Scale(story).words
        except (Failed, NotThisStory, NoEngine, NoRule, AssertionError, OSError) as error:
            sys.exit(f"FAIL: {lesson}: {error}")
        folder, page = ROOT / lesson / "pictures", ROOT / lesson / "README.md"
        files = moving | {folder / f"{name}.svg": svg for name, (svg, _) in pictures.items()}
        text = page.read_text()
        files[page] = with_alt_texts(text, {name: words for name, (_, words) in pictures.items()})
        for name in pictures:
            if f"(pictures/{name}.svg)" not in text:
                wrong.append(f"{page} does not show pictures/{name}.svg")
        for file in set(folder.glob("*")) - set(files):
            wrong.append(f"{file} belongs to no picture: delete it")
        wrong += put(files, f"what {lesson} does now", arguments)
        print(f"{lesson}: {len(pictures)} pictures", flush=True)
    if not arguments.lessons:
        files = sorted(set(MOVING.parent.glob("*.svg")) - {MOVING})
        try:
            by_hand = {file: styled(file.read_text()) for file in files}
        except NoRule as error:
            sys.exit(f"FAIL: docs/pictures: {error}")
        wrong += put(by_hand, "drawn with the style of vmmsim/view/style.py", arguments)
    if wrong:
        sys.exit("".join(f"FAIL: {what}\n" for what in wrong))


if __name__ == "__main__":
    main()
