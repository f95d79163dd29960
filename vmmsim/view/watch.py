# SPDX-License-Identifier: MIT-0
"""Runs a program, records what it asks of CUDA, and draws that as one HTML file. Needs the standard library only."""

import argparse
import contextlib
import difflib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import webbrowser
import zlib

from vmmsim import tool
from vmmsim.hardware import ask_driver, count_gpus
from vmmsim.processes import signal_name
from vmmsim.programs import NotStarted, wait_for
from vmmsim.tool import Failed
from vmmsim.trace.recording import LONGEST_LINE, PART, Broken, Recording, finish, opened, parsed
from vmmsim.view.compare import differences, name_of_file, page_of_two
from vmmsim.view.engine import NoEngine
from vmmsim.view.frames import steps
from vmmsim.view.page import LAUNCHERS, calls_of, page
from vmmsim.view.pictures import picture_of_steps
from vmmsim.view.sizes import plural, size_text
from vmmsim.view.snapshot import Snapshot
from vmmsim.view.words import is_fault, is_refused

# Of a view, or of a picture. The name was the latter until 0.1.
OURS = re.compile(rb'<meta name="generator" content="(vmmsim|CUDA VMM by Example)">|class="vmm-picture"')
OF_MACHINE = "gpus", "memory", "machine"  # options of vmmsim's


def say(text):
    sys.stdout.flush()
    print(f"view: {text}", file=sys.stderr, flush=True)


# --- The arguments


class Parser(argparse.ArgumentParser):
    def error(self, message):
        """In a line, with what may have been meant; the usage is for --help."""
        if option := re.match(r"unrecognized arguments: (--?[\w-]+)", message):
            near = difflib.get_close_matches(option[1], self._option_string_actions, 1, 0.7)
            message = f"there is no option {option[1]}" + (f"; did you mean {near[0]}?" if near else "")
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help lists the options)\n")


def parser_of(the_tool, machines):
    name = the_tool.name
    parser = Parser(
        prog=name,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage=f"{name} [options] PROGRAM [its arguments]\n       {name} [options] RECORDING [RECORDING]",
        description="Runs a program, and writes one HTML file in which one steps through its calls of CUDA: the\n"
        "address spaces and the memory of each GPU, before and after each call. The file needs no network.",
        epilog="machines: " + ", ".join(machines) + "\n\n"
        f"{the_tool.example}"
        f"  {name} --gpus 4 ./my_program 100         yours, with lines if built with -g1,-gdwarf-4\n"
        f"  {name} --real python3 train.py           any program, on this machine's GPUs\n"
        f"  {name} --real --record run.jsonl ./my_program    on one machine,\n"
        f"  {name} run.jsonl                                 and on another\n"
        f"  {name} before.jsonl after.jsonl                  two runs, one above the other\n"
        f"  {name} --snapshot snapshot.pickle run.jsonl      with the blocks of PyTorch's allocator\n\n"
        "Options stand before the program; what follows it is the program's. What the program prints comes through.\n"
        f"A program that fails or is interrupted is shown up to there. {the_tool.pages} has more.\n\n"
        "exit status: the program's, 128 + N if signal N ended it; 1 if there is no view, 2 bad arguments",
    )
    simulated = parser.add_argument_group("simulated GPUs")
    simulated.add_argument("--gpus", metavar="N", help="how many, 0 to 64 (default: the machine's)")
    simulated.add_argument("--memory", metavar="SIZE", help="of each, for instance 64MiB")
    simulated.add_argument("--machine", metavar="NAME", help="a name from below, or a file (default h200x8)")
    parser.add_argument("-C", metavar="DIRECTORY", dest="directory", help="paths are from there (default: from here)")
    parser.add_argument("--real", action="store_true", help="run on this machine's GPUs, recorded through CUPTI")
    parser.add_argument("--durations", action="store_true", help="with --real: how long kernels and copies took, too")
    parser.add_argument("--record", metavar="FILE", help="only record, into this file")
    parser.add_argument("-o", "--output", metavar="FILE", help="the HTML file (default: PROGRAM.html, where you are)")
    parser.add_argument("--snapshot", metavar="FILE", help="PyTorch's own (_dump_snapshot) of the same run: its blocks")
    parser.add_argument("--svg", action="store_true", help="only the picture of a step, as an SVG file")
    parser.add_argument("--step", metavar="N", type=step_numbers, help="which; 20-24: what all these changed")
    parser.add_argument("--title", metavar="TEXT", help="above a picture, with the calls that changed something")
    parser.add_argument("--width", metavar="N", type=int, help="of a picture: 340 or more (default: 600)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("command", metavar="PROGRAM", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def arguments(words, the_tool):
    """What is asked for, of a Tool."""
    machines = sorted(file.stem for file in the_tool.machines.glob("*.conf"))
    parser = parser_of(the_tool, machines)
    given = parser.parse_args(words)
    given.error = parser.error
    given.tool = the_tool
    if given.directory is not None:
        os.chdir(given.directory)
    if given.command[:1] == ["--"]:
        del given.command[0]
    if not given.command or not given.command[0]:
        parser.error("name a program, or a recording")
    given.of_machine = [name for name in OF_MACHINE if getattr(given, name) is not None]
    if given.real and given.of_machine:
        parser.error(f"--{given.of_machine[0]} is of simulated GPUs: leave it or --real out")
    if given.durations and not given.real:
        parser.error("--durations are of real GPUs: give --real too")
    if given.record is not None and (given.output is not None or given.open):
        parser.error(f"--record only records: draw it afterwards with {the_tool.name} FILE")
    if given.record is not None and given.snapshot is not None:
        parser.error("--snapshot goes with a view, and --record only records: give it when you draw the recording")
    if not given.svg and (given.step or given.title or given.width):
        parser.error("--step, --title and --width are of a picture: give --svg too")
    for name in ("record", "output"):
        if getattr(given, name) is not None and not os.path.basename(getattr(given, name)):
            parser.error(f"--{name}: name a file")
    check_machine(given, machines)
    given.recordings = recordings_of(given)
    if given.recordings and (given.of_machine or given.real or given.record is not None):
        parser.error(f"{given.command[0]} is a recording and no program: only --output and --open go with it")
    if len(given.recordings) > 1 and given.snapshot is not None:
        parser.error("--snapshot is of one run: leave it or a recording out")
    return given


def step_numbers(text):  # of 12, or of 12-15
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def check_machine(given, machines):
    if given.gpus is not None and not (given.gpus.isascii() and given.gpus.isdigit() and int(given.gpus) <= 64):
        given.error(f"--gpus: '{given.gpus}' is no number from 0 to 64")
    if given.memory is not None and not re.fullmatch(r"[1-9]\d{0,15} ?([KMGT]iB)?", given.memory):
        given.error(f"--memory: '{given.memory}' is no size like 512MiB or 80GiB")
    if given.machine is not None and given.machine not in machines:
        if "/" not in given.machine:
            near = difflib.get_close_matches(given.machine, machines, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(machines)}"
            given.error(f"--machine: there is no machine '{given.machine}'; {hint}")
        if not os.path.isfile(given.machine):
            given.error(f"--machine: there is no file {given.machine}")


def recordings_of(given):
    """The recordings that are named instead of a program: one, two or none. Ends with 2 if it is neither."""
    word, *more = given.command
    if given.tool.will_build(word):
        return []
    path = pathlib.Path(word)
    looks = looks_like_a_recording(path)
    if not looks and shutil.which(word):
        return []
    if not path.is_file():
        where = f"in {os.getcwd()}" if "/" in word else "on the PATH"
        others = given.tool.programs_like(word)
        given.error(f"there is no program {word} {where}" + (f"; there is {others[0]}" if others else ""))
    if looks and len(more) == 1 and looks_like_a_recording(more[0]):
        return [path, pathlib.Path(more[0])]
    if looks and more and more[0].startswith("-"):
        given.error(f"options stand before the recording: {given.tool.name} {shlex.join([*more, word])}")
    if not looks and re.search(r"\.pickle|\.pkl", path.name):
        given.error(f"a snapshot of PyTorch goes with a recording: {given.tool.name} --snapshot {word} RECORDING")
    if not looks and path.suffix == ".py":
        started = shlex.join(["python3", *given.command])
        given.error(f"{word} cannot be executed by itself: put python3 before it, as in {started}")
    if more or not looks and (given.real or given.record is not None):
        wrong = "is a recording, and takes no arguments but a second recording" if looks else "cannot be executed"
        given.error(f"{word} {wrong}")
    return [path]


def looks_like_a_recording(path):
    with contextlib.suppress(OSError, EOFError, zlib.error), opened(path) as file:
        line = parsed(begin := file.readline(LONGEST_LINE).decode(errors="surrogateescape"))
        is_whole = isinstance(line, dict) and not line.keys().isdisjoint(("pid", "about", "module"))
        return is_whole or bool(PART.match(begin))  # the second: it is cut off
    return False


# --- The run


def gpus_here():
    """(how many, in words) of this machine's GPUs and their driver. Failed if there is none."""
    number, why = count_gpus()
    if not number:
        raise Failed(
            f"no GPU here: {why}. Without --real the program runs on simulated GPUs; or record it on a machine that "
            "has a GPU, with --real --record FILE, and draw it here without --real"
        )
    question = "driver.cuDeviceGetName(name, 100, 0) or print(name.value.decode())"
    name = ask_driver(f"driver.cuInit(0); name = ctypes.create_string_buffer(100); {question}").stdout.strip()
    driver = ""
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/driver/nvidia/version").read_text()
        driver = (re.search(r"(?:Kernel Module[^\n]*?)\s(\d+\.\d+[.\d]*)", text) or ["", ""])[1]
    words = f"{number} {name}" if name else plural(number, "GPU")
    return number, words + (f", driver {driver}" if driver else "")


def simulated(given):
    """(how many GPUs, in words, the words of vmmsim before the program)"""
    words = [word for name in given.of_machine for word in (f"--{name}", getattr(given, name))]
    told = subprocess.run([given.tool.launcher, *words, "--print-gpus"], capture_output=True, text=True)
    if told.returncode:
        raise Failed(told.stderr.strip())
    where = plural(int(told.stdout), "simulated GPU")
    where += f" (machine {pathlib.Path(given.machine).stem})" if given.machine else ""
    return int(told.stdout), where, words


def run(given, file):
    """Runs the program to its end and records it into the file. Returns its status as a shell does."""
    environment = dict(os.environ)
    command = list(given.command)
    if given.real:
        gpus, where = given.gpus_here
        # A path that is good wherever the program goes before its first call.
        environment |= {"CUDA_INJECTION64_PATH": str(given.tool.recorder), "VMM_RECORD": os.path.abspath(file)}
        environment["VMM_RECORD_DURATIONS"] = str(int(given.durations))
    else:
        gpus, where, words = simulated(given)
        command = [str(given.tool.launcher), *words, "--trace", str(file), *command]
    with open(file, "wb"):
        pass  # also if the program never gets as far
    try:
        status = wait_for(command, environment, say)
    except NotStarted as error:
        raise Failed(str(error)) from None
    program = os.path.basename(given.command[0])
    if status > 128 and status - 128 < 65:
        say(f"{program} was ended by {signal_name(status - 128)}")
    elif status:
        say(f"{program} ended with status {status}")
    for sentence in finish(file, given.command, where, gpus, status):
        say(sentence)
    return status


# --- What is written


def name_of_view(given):
    """The HTML file: as the user names it, or as the program does."""
    if given.output is not None:
        return pathlib.Path(given.output)
    if given.recordings:
        name = "_and_".join(map(name_of_file, given.recordings))
    else:
        scripts = [word for word in given.command[1:] if os.path.isfile(word)]
        program = (LAUNCHERS.fullmatch(given.command[0]) and scripts or given.command)[0]
        name = re.sub(r"\.(py|sh|exe|out)$", "", os.path.basename(program))
    return pathlib.Path(f"{name or 'view'}.{'svg' if given.svg else 'html'}")


def check_writable(path, is_ours, noun, option):
    """Failed if the file cannot be written, or is somebody's and would be lost."""
    if path.exists():
        if not path.is_file():
            raise Failed(f"{path} is no file: name another with {option}")
        if path.stat().st_size and not is_ours(path):
            raise Failed(f"{path} is there and is no {noun}: rename it, or name another file with {option}")
    elif not path.parent.is_dir():
        raise Failed(f"there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Failed(f"no permission to write {path}: name a file elsewhere with {option}")


def is_view(path):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return bool(OURS.search(file.read(2000)))
    return False


def text_of(recordings, given):
    snapshot = Snapshot.read(given.snapshot) if given and given.snapshot is not None else None
    runs = [(recording, steps(recording, snapshot)) for recording in recordings]
    if not (given and given.svg):
        for sentence in differences(runs) if len(runs) > 1 else ():
            say(sentence)
        return page(*runs[0]) if len(runs) == 1 else page_of_two(runs)
    if len(runs) > 1:
        raise Failed("--svg: a picture is of one recording")
    found = runs[0][1]
    first, last = given.step or 2 * [found.overview.opens_at()]
    if not 1 <= first <= last <= len(found):
        raise Failed(f"--step: there are the steps 1 to {len(found)}")
    return picture_of_steps(found, first, last, given.title or "", width=max(given.width or 600, 340))


def draw(recordings, path, given=None):
    """Writes the view of a recording, or of two, whole or not at all. Returns its size."""
    text = text_of(recordings, given)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if os.access(path.parent, os.W_OK):
            unfinished.write_text(text)
            unfinished.replace(path)
        else:
            path.write_text(text)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()
    return len(text.encode())


def describe(recording):
    calls = calls_of(recording)
    faults = sum(map(is_fault, calls))
    errors = (sum(map(is_refused, calls)) - faults, "refused"), (faults, "for a fault")
    counted = [f"{count} of them {how}" for count, how in errors if count]
    return ", ".join([plural(len(calls), "call") + " of CUDA", *counted])


# --- All of it


def watch(given):
    html = None if given.record is not None else name_of_view(given)
    if html:
        check_writable(html, is_view, "view", "--output")
    else:
        check_writable(pathlib.Path(given.record), looks_like_a_recording, "recording", "--record")
    if given.recordings:
        return finished(given, [read(path) for path in given.recordings], html, 0)

    if given.real:
        given.gpus_here = gpus_here()
    given.tool.prepare(given)
    with tempfile.TemporaryDirectory(prefix="view-") as scratch:
        file = pathlib.Path(given.record) if given.record is not None else pathlib.Path(scratch, "recording.jsonl")
        status = run(given, file)
        recording = Recording.read(file)
    if not calls_of(recording):
        say(f"{os.path.basename(given.command[0])} made no call of CUDA: there is nothing to show")
        return status or 1
    if html:
        return finished(given, [recording], html, status)
    say(f"{describe(recording)}, in {file}; {given.tool.name} {shlex.quote(str(file))} draws them")
    return status


def read(path):
    try:
        recording = Recording.read(path)
    except Broken as error:
        if not looks_like_a_recording(path):
            say(f"{path} can neither be executed nor be drawn:")
        raise error from None
    if not calls_of(recording):
        raise Failed(f"{path} has no call of CUDA: there is nothing to show")
    return recording


def finished(given, recordings, html, status):
    try:
        size = draw(recordings, html, given)
    except (Failed, NoEngine, OSError) as error:
        say(format_error(error))
        return status or 1
    cut = "; the recording was cut off" if any(recording.is_cut for recording in recordings) else ""
    calls = " and ".join(map(describe, recordings))
    say(f"{calls}{cut}: open {html} in a browser ({size_text(size)})")
    if given.open and not webbrowser.open(html.resolve().as_uri()):  # that of the system, or that of BROWSER
        say("--open: there is no browser, or BROWSER names none that works; open the file yourself")
    return status


def format_error(error):
    return f"{error.filename or 'a file'}: {error.strerror}" if isinstance(error, OSError) else str(error)


def main(words, the_tool=None):
    """The exit status of `vmmsim view`, or of what else has a Tool."""
    try:
        return watch(arguments(words, the_tool or tool.Tool()))
    except (Failed, Broken, OSError) as error:
        say(format_error(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
