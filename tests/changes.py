# SPDX-License-Identifier: MIT-0
"""Changes of a program, as lesson.json and the wrong answers of labs have them.

A change is a list of lines: "- " stands there, "+ " is put in its place, "  " stays; "..." is between two places.
"""

import pathlib
import re
import subprocess

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDES = re.compile(r"^(?:#include (?:<|.\.\./).*|#ifdef .*\n(?:#(?:include|else).*\n)+#endif)\n", re.MULTILINE)


def places(lines):
    """(what stands there, what is put there) of each place."""
    found = [[]]
    for line in lines:
        if line == "...":
            found.append([])
        else:
            found[-1].append(line)
    return [
        tuple("\n".join(line[2:] for line in place if line[:2] in (sign, "  ")) for sign in ("- ", "+ "))
        for place in found
    ]


def build(texts, directory, source, architecture):
    """One program of all these texts of a program. The environment's MISTAKE, 0 for the first, says which is to run.

    Each is in a namespace of its own, since most of the time of a compiler goes into the headers, which all share. What
    it says names the lines of its own text, and a line that it prints is written at once, as in a terminal.
    """
    copy = directory / "lesson" / source.name  # beside common, as in the checkout
    copy.parent.mkdir()
    with open(copy, "w") as file:
        file.writelines(INCLUDES.findall(texts[0]))
        for number, text in enumerate(texts):
            body = INCLUDES.sub(lambda found: "\n" * found[0].count("\n"), text)
            body = body.replace('  std::puts("OK");\n}', '  std::puts("OK"); return 0;\n}')
            file.write(f'namespace mistake_{number} {{\n#line 1 "{source.name}"\n{body}}}\n')  # main is one of many
        file.write("int main(int count, char** arguments) {\n  std::setvbuf(stdout, nullptr, _IOLBF, 0);\n")
        file.write('  switch (std::atoi(std::getenv("MISTAKE"))) {\n')
        given = "" if "\nint main() {" in texts[0] else "count, arguments"
        for number in range(len(texts)):
            file.write(f"    case {number}: return mistake_{number}::main({given});\n")
        file.write("  }\n}\n")
    (directory / "common").symlink_to(ROOT / "common")
    # The compiler finds the libraries by itself in a toolkit that was installed, and not in one that came from PyPI.
    nvcc = BUILT["nvcc"], f"-L{pathlib.Path(BUILT['cudart_static']).parent}", BUILT["cuda_driver"]
    command = [*nvcc, "-std=c++17", "-lineinfo", "-gencode", architecture, "--no-compress", "-I", source.parent, copy]
    done = subprocess.run([*command, "-o", directory / source.stem], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / source.stem
