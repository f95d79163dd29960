# SPDX-License-Identifier: MIT-0
"""A Jupyter kernel whose calls of CUDA are traced: `vmmsim notebook install`, `vmmsim notebook uninstall`."""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import tempfile

from vmmsim.tool import PACKAGE, Failed, Tool, parts

TRACE, PROBLEM = "VMMSIM_NOTEBOOK", "VMMSIM_NOTEBOOK_PROBLEM"  # in the kernel's environment
NAMES = {False: "vmmsim", True: "vmmsim-real"}  # of the kernels; whether on real GPUs
SHOWN = {False: "Python 3 on simulated GPUs (vmmsim)", True: "Python 3 on real GPUs (vmmsim)"}
OF_MACHINE = "gpus", "memory", "machine"


def command():
    """How a terminal calls this."""
    return "vmmsim notebook" if parts() == PACKAGE else f"cd {PACKAGE.parent} && {sys.executable} -m vmmsim notebook"


def parser_of():
    parser = argparse.ArgumentParser(
        prog="vmmsim notebook",
        allow_abbrev=False,
        description="A kernel for Jupyter in which `%%load_ext vmmsim` draws the address spaces after each cell.",
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="install|uninstall")
    install_it = commands.add_parser("install", allow_abbrev=False, help="for this Python, where Jupyter finds it")
    install_it.add_argument("--real", action="store_true", help="one for this machine's GPUs, recorded through CUPTI")
    install_it.add_argument("--gpus", metavar="N", help="how many simulated ones (default: 8)")
    install_it.add_argument("--memory", metavar="SIZE", help="of each, for instance 64MiB")
    install_it.add_argument("--machine", metavar="NAME", help="as `vmmsim --help` lists them")
    install_it.add_argument("--sys-prefix", action="store_true", help="into this Python's environment, not your home")
    commands.add_parser("uninstall", help="remove what `install` has installed")
    return parser


def specs():
    """What manages Jupyter's kernels."""
    missing = [name for name in ("ipykernel", "jupyter_client") if not importlib.util.find_spec(name)]
    if missing:
        raise Failed(f"{sys.executable} has no {missing[0]}: {sys.executable} -m pip install ipykernel, and try again")
    from jupyter_client.kernelspec import KernelSpecManager

    return KernelSpecManager()


def install(given):
    of_machine = [word for name in OF_MACHINE if getattr(given, name) for word in (f"--{name}", getattr(given, name))]
    if given.real and of_machine:
        raise Failed(f"{of_machine[0]} is of simulated GPUs: leave it or --real out")
    manager, name = specs(), NAMES[given.real]
    Tool().prepare(given)
    start_it = [sys.executable, str(PACKAGE / "notebook" / "start.py"), *(["--real"] if given.real else of_machine)]
    spec = {
        "argv": [*start_it, "-f", "{connection_file}"],
        "display_name": SHOWN[given.real],
        "language": "python",
        "interrupt_mode": "message",  # a signal would reach it twice: from Jupyter, and passed on by vmmsim
        "metadata": {"debugger": True},
    }
    with tempfile.TemporaryDirectory() as scratch:
        pathlib.Path(scratch, "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
        where = {"prefix": sys.prefix} if given.sys_prefix else {"user": True}
        place = manager.install_kernel_spec(scratch, name, **where)
    print(f"The kernel '{SHOWN[given.real]}' is in {place}. In a notebook: choose it, and begin with %load_ext vmmsim")


def uninstall():
    manager, removed = specs(), []
    for name in NAMES.values():
        while name in manager.find_kernel_specs():  # a home's hides an environment's
            removed.append(manager.remove_kernel_spec(name))
    print("\n".join(f"removed {place}" for place in removed) or "there is none")


def main(words):
    """The exit status of `vmmsim notebook`."""
    given = parser_of().parse_args(words)
    try:
        install(given) if given.what == "install" else uninstall()
    except (Failed, OSError) as error:
        print(f"vmmsim notebook: {error}", file=sys.stderr)
        return 1
    return 0


# --- The kernel's start


def start(words):
    """Becomes the kernel. One that cannot be traced starts all the same, so that %load_ext vmmsim can say why."""
    at = words.index("-f")  # from there on it is the kernel's, and Jupyter may add to it
    machine, python = words[:at], [sys.executable, "-m", "ipykernel_launcher", *words[at:]]
    if parts() != PACKAGE:  # a checkout, of which this Python knows nothing
        python.insert(1, "-B")
        python.append(f"--IPKernelApp.exec_lines=import sys; sys.path.append({str(PACKAGE.parent)!r})")
    real = machine == ["--real"]
    the_tool = Tool()
    needed = the_tool.recorder if real else the_tool.launcher
    if not needed.exists():
        os.environ[PROBLEM] = f"there is no {needed} any more: build it again, then {command()} install"
        os.execv(python[0], python)
    # The trace is a file without a name: nobody has to remove it, and a kernel that is restarted has a new one.
    descriptor = os.memfd_create("vmmsim-notebook", 0)
    os.set_inheritable(descriptor, True)
    os.environ[TRACE] = trace = f"/proc/{os.getpid()}/fd/{descriptor}"
    if real:
        os.environ |= {"CUDA_INJECTION64_PATH": str(needed), "VMM_RECORD": trace}
        os.execv(python[0], python)
    os.execv(needed, ["vmmsim", *machine, "--trace", trace, *python])
