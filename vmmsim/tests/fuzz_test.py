#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""The commands of fuzz/README.md compile both fuzzers, and these find nothing in a while: fuzz_test

With FUZZ_SECONDS=60 that is a minute each, of other inputs in each run; else a number of inputs, always the same ones.

Exit status 77 where there is no clang++ with libFuzzer.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT = "-max_total_time=300"
SECONDS = os.environ.get("FUZZ_SECONDS")
A_WHILE = f"-max_total_time={SECONDS}" if SECONDS else "-seed=1 -runs=20000"
EMPTY = "#include <cstddef>\nextern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, size_t) { return 0; }\n"


def has_fuzzer(place):
    (place / "empty.cc").write_text(EMPTY)
    command = ["clang++", "-fsanitize=fuzzer,address,undefined", "empty.cc", "-o", "empty"]
    return bool(shutil.which("clang++")) and subprocess.run(command, cwd=place, capture_output=True).returncode == 0


def main():
    documented = re.search(r"```sh\n(.*?)```", (ROOT / "tests/fuzz/README.md").read_text(), re.DOTALL)[1]
    assert LIMIT in documented, f"fuzz/README.md has no {LIMIT}"
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        if not has_fuzzer(place):
            print("SKIP: no clang++ with libFuzzer; install Debian's clang, or ./test.sh gets it")
            return 77
        (place / "vmmsim").symlink_to(ROOT)
        for fuzzer in ("parse", "fat_binary"):
            commands = documented.replace("parse", fuzzer).replace(LIMIT, A_WHILE)
            done = subprocess.run(["bash", "-ec", commands], cwd=place, capture_output=True, text=True)
            if done.returncode:
                return f"FAIL: {fuzzer}: exit status {done.returncode}\n{done.stderr[-4000:]}"
            print(f"{fuzzer}: {done.stderr.splitlines()[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
