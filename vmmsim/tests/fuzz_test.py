# SPDX-License-Identifier: MIT-0
"""The commands of fuzz/README.md compile both fuzzers, and these find nothing in a while.

With FUZZ_SECONDS=60 that is a minute each, of other inputs in each run; else a number of inputs, always the same ones.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT = "-max_total_time=300"
SECONDS = os.environ.get("FUZZ_SECONDS")
A_WHILE = f"-max_total_time={SECONDS}" if SECONDS else "-seed=1 -runs=20000"
EMPTY = "#include <cstddef>\nextern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, size_t) { return 0; }\n"


@pytest.mark.parametrize("fuzzer", ["parse", "fat_binary"])
def test_the_documented_commands_find_nothing(fuzzer, tmp_path):
    documented = re.search(r"```sh\n(.*?)```", (ROOT / "tests/fuzz/README.md").read_text(), re.DOTALL)[1]
    assert LIMIT in documented
    (tmp_path / "empty.cc").write_text(EMPTY)
    command = ["clang++", "-fsanitize=fuzzer,address,undefined", "empty.cc", "-o", "empty"]
    if not shutil.which("clang++") or subprocess.run(command, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("no clang++ with libFuzzer; install Debian's clang, or ./test.sh gets it")
    for part in "simulator", "tests":
        (tmp_path / part).symlink_to(ROOT / part)
    commands = documented.replace("parse", fuzzer).replace(LIMIT, A_WHILE)
    done = subprocess.run(["bash", "-ec", commands], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
