# SPDX-License-Identifier: MIT-0
"""Tables that speak of other files.

The map of the guide's section 4.16: each heading has its row, in the guide's order, with the pages that teach it. The
glossary: each word is linked where it says that it comes first, and used where it says that it is taught. The page on
hardware: the attributes that each program asks for, and the command that asks a machine for them.
"""

import pathlib
import re
import subprocess

from vmmsim.built import BUILT

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = pathlib.Path(BUILT["headers"])
VMMSIM = BUILT.get("vmmsim")
HARDWARE = (ROOT / "docs/hardware.md").read_text()

HEADINGS = """
4.16. Virtual Memory Management
4.16.1. Preliminaries
4.16.1.1. Definitions
4.16.1.2. Query for Support
4.16.2. API Overview
4.16.3. Unicast Memory Sharing
4.16.3.1. Allocate and Export
4.16.3.2. Share and Import
4.16.3.3. Reserve and Map
4.16.3.4. Access Rights
4.16.3.5. Releasing the Memory
4.16.4. Multicast Memory Sharing
4.16.4.1. Allocating Multicast Objects
4.16.4.2. Add Devices to Multicast Objects
4.16.4.3. Bind Memory to Multicast Objects
4.16.4.4. Use Multicast Mappings
4.16.5. Advanced Configuration
4.16.5.1. Memory Type
4.16.5.2. Compressible Memory
4.16.5.3. Virtual Aliasing Support
4.16.5.4. OS-Specific Handle Details for IPC
""".strip().splitlines()


def slug(heading):
    """The anchor that a heading gets, here as on a code forge and in the guide."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_the_map_has_each_heading_of_the_guide():
    page = (ROOT / "docs/guide.md").read_text()
    rows = re.findall(r"^\| \[(4\.16\..*?)\]\((.*?)\) \| (.*?) \|", page, re.MULTILINE)
    assert [heading for heading, _, _ in rows] == HEADINGS
    for heading, link, taught in rows:
        if heading != HEADINGS[0]:
            assert link.partition("#")[2] == slug(heading.split(" ", 1)[1])
        assert re.search(r"\]\(\.\./\d\d_\w+/\w+\.md[#)]", taught), heading


def test_each_word_is_on_its_first_page():
    page = ROOT / "docs/glossary.md"
    words = page.read_text().partition("## Not in this book\n")[0]
    entries = re.findall(r"^## (.*)\n\n((?:(?!^## )[\s\S])*)", words, re.MULTILINE)
    assert len(entries) > 15
    assert [word for word, _ in entries] == sorted((word for word, _ in entries), key=str.lower)
    for word, text in entries:
        last = re.search(r"(First|Taught)\s+in\s+\[[^]]*\]\((.*?)\)\.\s*$", text)
        assert last is not None, word
        target = (page.parent / last[2]).resolve().read_text()
        forms = [part[: max(4, len(part) - 5)] for part in word.split() if len(part) > 3] or [word]  # binding, bind
        stands = re.search(rf"(?i)\b({'|'.join(map(re.escape, forms))})", target)
        assert stands is not None, f"{word}: not in {last[2]}"


def test_the_table_has_the_attributes_of_each_program():
    section = HARDWARE[HARDWARE.index("## What a lesson needs") :]
    of_all = re.search(r"`CU_DEVICE_ATTRIBUTE_(\w+_SUPPORTED)`", section)[1]
    named = {}
    for programs, attributes in re.findall(r"^\| ((?:\[\d\d\]|`\w+`).*?) \|(.*?)\|", section, re.MULTILINE):
        for lesson, program in re.findall(r"\[(\d\d)\]|`(\w+)`", programs):
            named[lesson or program] = {of_all, *re.findall(r"`(\w+_SUPPORTED)`", attributes)}
    asked = {}
    for source in sorted(ROOT.glob("[0-9][0-9]_*/*.cu")):
        program = source.stem if source.stem in named else source.parent.name[:2]  # a program may have its own line
        text = source.read_text()
        attributes = re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+_SUPPORTED)", text)
        if re.search(r"require_gpus\([^,()]*\)|check::vmm|start_on_gpu_0", text):  # the gate asks
            attributes.append(of_all)
        if "require_multicast(" in text:
            attributes.append("MULTICAST_SUPPORTED")
        asked.setdefault(program, set()).update(attributes)
    assert named == asked, "docs/hardware.md, What a lesson needs"


def test_the_command_asks_for_the_attributes():
    command = re.search(r"^```sh\n(python3 - <<[\s\S]*?)```", HARDWARE, re.MULTILINE)[1]
    numbers = dict(re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) *= (\d+)", (HEADERS / "cuda.h").read_text()))
    first = ["VIRTUAL_MEMORY_MANAGEMENT", "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", "HANDLE_TYPE_FABRIC", "MULTICAST"]
    assert re.findall(r'\((\d+), "', command) == [numbers[f"{name}_SUPPORTED"] for name in first]
    if VMMSIM is None:
        return
    for machine, answer in {
        "no_multicast": "NVIDIA H200 | 01 02 07: yes | 04: yes | 05: yes | 06: no | 03: with [1]",
        "no_fd_handles": "NVIDIA H200 | 01 02 07: yes | 04: no | 05: yes | 06: yes | 03: with [1]",
        "h200x2_no_peer": "NVIDIA H200 | 01 02 07: yes | 04: yes | 05: no | 06: no | 03: with []",
        "no_vmm": "NVIDIA H200-141C | 01 02 07: no | 04: no | 05: no | 06: no | 03: with []",
    }.items():
        gpus = [] if machine == "no_vmm" else ["--gpus", "2"]
        run = [VMMSIM, "--machine", machine, *gpus, "sh", "-c", command]
        printed = subprocess.run(run, check=True, text=True, capture_output=True, timeout=60).stdout.splitlines()
        assert printed[:2] == ["driver for CUDA 13.0", f"0 {answer}"], machine
