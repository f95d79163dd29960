# SPDX-License-Identifier: MIT-0
"""What a program, and the compiler with it, can reach beside its own: in the sandbox."""

import os
import re
import socket
import subprocess

import pytest

from labs.judge import sandbox
from labs.judge.program import ROOT, Program
from labs.judge.verdict import all_labs, judge

SOLUTION = ROOT / "labs/solutions/01a_replace_cudamalloc.cu"
PROGRAM = """#include <cstdlib>
int main() { return std::system(R"(bash -c '{ TRIED } 2> /dev/null')"); }
"""
# What is tried, each in a line that prints its words if it succeeds.
TRIED = """
cat {solution} && echo a solution
cat {secret} && echo a secret file
: > {results} && echo the results of the judge
: > ../labs/program/reach && echo its own program
: > mine && echo a file of its own
env | grep SECRET && echo the environment of the judge
grep python /proc/{judge}/comm && echo the process of the judge
ls -l /proc/self/fd | grep {secret} && echo its descriptors
echo > /dev/tcp/127.0.0.1/{port} && echo the network
"""
SANDBOXES = pytest.mark.parametrize("way", ["bubblewrap"], indirect=True)


@pytest.fixture
def way(request, monkeypatch):
    """This way is taken, if this machine allows it."""
    monkeypatch.setattr(sandbox, "way", lambda: request.param)
    tried = ["test", "-r", sandbox.__file__] if request.param == "user" else ["/bin/true"]
    words = sandbox.inside(tried, [], [], "/")
    options = {"capture_output": True, "stdin": subprocess.DEVNULL, "env": {"PATH": os.defpath}}
    if subprocess.run(words, **options).returncode:
        pytest.skip(f"this machine does not allow it: {request.param}")


@SANDBOXES
def test_a_program_reaches_nothing(way, tmp_path, monkeypatch):
    secret, source, results = tmp_path / "secret", tmp_path / "reach.cu", tmp_path / "results.json"
    secret.write_text("secret")
    monkeypatch.setenv("SECRET", "SECRET")
    with socket.create_server(("127.0.0.1", 0)) as server, open(secret) as held:
        os.set_inheritable(held.fileno(), True)
        port = server.getsockname()[1]
        tried = TRIED.format(solution=SOLUTION, secret=secret, results=results, judge=os.getpid(), port=port)
        (tmp_path / "reach.cu").write_text(PROGRAM.replace("TRIED", tried))
        with Program(source) as program:
            assert program.build() == (True, "")
            assert program.run().stdout == "a file of its own\n"


@pytest.mark.parametrize("way", ["", "user", "bubblewrap"], indirect=True)
def test_a_solution_is_right(way):
    """Also as another user, and where there is no sandbox: nothing of the judge's is open in it then."""
    lab = next(lab for lab in all_labs() if lab.number == "04a")
    assert judge(lab, lab.solution).words == ""


@SANDBOXES
def test_the_compiler_reads_nothing_for_it(way, tmp_path):
    source = tmp_path / "reads.cu"
    source.write_text(f'asm(".incbin \\"{SOLUTION}\\"");\nint main() {{}}\n')
    with Program(source) as program:
        built, said = program.build()
    assert not built
    assert re.search("No such file|not found", said)
