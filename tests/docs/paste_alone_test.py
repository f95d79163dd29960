#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Each snippet of docs/paste, copied as docs/paste.md says and compiled alone, without a warning.

    paste_alone_test.py SOURCE_DIRECTORY INCLUDE_DIRECTORY [NVCC]

Without NVCC those that are host code alone, with it those that have code for a GPU: for one with multimem instructions
and for one without. By g++ and by clang++; exit status 77 if all else is right and there is no clang++.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, INCLUDE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
NVCC = sys.argv[3] if len(sys.argv) > 3 else None
STRICT = ["-Wall", "-Wextra", "-Werror"]
PAGE = (ROOT / "docs/paste.md").read_text()

USES = {  # of what is compiled only where it is used
    "multimem.cu": """
template <class T> __global__ void use(T* mc) {
  broadcast(mc, T(1)), add_to_all(mc, T(1));
  mc[0] = sum_of_all(mc);
}
template __global__ void use(int*);
template __global__ void use(unsigned*);
template __global__ void use(uint64_t*);
template __global__ void use(float*);
""",
}


def command(pattern):
    """The one line of this form within the page's blocks of shell commands."""
    lines = re.findall(pattern, "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)), re.MULTILINE)
    if len(lines) != 1:
        sys.exit(f"FAIL: docs/paste.md has {len(lines)} commands of the form {pattern}")
    return lines[0]


COPY = command(r"^cp docs/paste/\w+\.cu \.$")
CUT = command(r"^.*02_growable/growable\.cu.*$")


def compiled(name, copy, compiler):
    """What the compiler says of a snippet that was copied by these commands into an empty directory."""
    with tempfile.TemporaryDirectory() as scratch:
        for each in "docs", "02_growable":
            os.symlink(ROOT / each, pathlib.Path(scratch, each))
        subprocess.run(["bash", "-ec", copy], cwd=scratch, check=True)
        with pathlib.Path(scratch, name).open("a") as file:
            file.write(USES.get(name, ""))
        if NVCC:
            options = ["-Werror", "all-warnings", "-Xcompiler", ",".join(STRICT), "-ccbin", compiler]
            options += [f"-gencode=arch=compute_{each},code=sm_{each}" for each in (75, 90)]
            words = [NVCC, "-std=c++17", *options, "-c", name, "-o", "alone.o"]
        else:
            words = [compiler, "-x", "c++", "-std=c++17", *STRICT, f"-isystem{INCLUDE}", "-c", name, "-o", "alone.o"]
        done = subprocess.run(words, cwd=scratch, text=True, capture_output=True, timeout=200, check=False)
        return f"{compiler}: {name}: status {done.returncode}\n{done.stderr}" if done.returncode or done.stderr else ""


def main():
    compilers = [each for each in ("g++", "clang++") if shutil.which(each)]
    work = [] if NVCC else [("growable_buffer.cu", CUT)]
    for path in sorted((ROOT / "docs/paste").glob("*.cu")):
        text = path.read_text()
        if bool(re.search(r"__(?:device|global)__", text)) == bool(NVCC):
            needed = [path.stem]
            for each in needed:
                text = (path.parent / f"{each}.cu").read_text()
                needed += [
                    name for name in re.findall(r'^#include "(\w+)\.cu"', text, re.MULTILINE) if name not in needed
                ]
            work.append((path.name, "\n".join(re.sub(r"paste/\w+", f"paste/{each}", COPY) for each in needed)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = list(
            filter(None, pool.map(lambda both: compiled(*both[0], both[1]), [(w, c) for w in work for c in compilers]))
        )
    print("\n".join(bad) or f"{len(work)} snippets, alone, by {' and '.join(compilers)}")
    if bad:
        sys.exit(1)
    if "clang++" not in compilers:
        print("SKIP: there is no clang++")
        sys.exit(77)


if __name__ == "__main__":
    main()
