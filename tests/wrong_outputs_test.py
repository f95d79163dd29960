#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""What a reader would call wrong is not what the recordings expect: wrong_outputs_test.py SOURCE_DIRECTORY.

Each recorded output is changed in one place at a time and held against its own expected_output.txt.
"""
import pathlib
import re
import sys
import unittest

from transcript import VALUE, as_printed, expectations, pair, record

ROOT = pathlib.Path(sys.argv.pop(1))
RECORDINGS = sorted(ROOT.glob("[0-9][0-9]_*/*expected_output.txt"))

# For each lesson: a line or a part of one => what stands there instead; nothing: the line is missing. Only the first
# place is changed. "|" is the end of a line.
WRONG = """
== 01_vmm_basics
NVIDIA H200: virtual => : virtual
is supported => is not supported
minimum 2048 KiB => minimum 4096 KiB
minimum 2048 KiB => minimum 2048 MiB
1 GiB of addresses => 2 GiB of addresses
from 0x420000000, => from 0x0,
from 0x420000000, => from 0x430000000,
, 0 KiB of memory => , 2048 KiB of memory
2048 KiB created => 1024 KiB created
pinned on GPU 0 => pinned on GPU 1
; 2048 KiB of memory => ; 0 KiB of memory
access of GPU 0: none => access of GPU 0: read and write
access of GPU 0: read and write => access of GPU 0: read
524288 of 524288 => 524287 of 524288
524288 of 524288 => 524288 of 1048576
524288 of 524288 => 0 of 0
to 0x460000000 => to 0x420000000
the sum is still 524288 => the sum is still 0
released; through the mapping the sum is still 524288 => released; through the mapping the sum is still -524288
    a handle again, from the address| =>
-> CUDA_ERROR_INVALID_VALUE => -> CUDA_SUCCESS
-> CUDA_ERROR_INVALID_VALUE => -> CUDA_ERROR_NOT_SUPPORTED
    a mapping over a mapping|    cuMemMap(b, size, 0, handle, 0)|      -> CUDA_ERROR_INVALID_VALUE| =>
[11] Tear down| => [12] Tear down|
is what it was at the start => is not what it was at the start
OK| =>
OK| => OK|OK|
== 02_growable
a granule is 2048 KiB => a granule is 64 KiB
1 GiB from => 1 MiB from
from 0x4920000000 => from 4920000000
memory taken: 0 KiB => memory taken: 999999 KiB
4 granules, filled => 5 granules, filled
32768 KiB of data => 32766 KiB of data
memory taken: 32768 KiB => memory taken: 2048 KiB
24576 KiB given back => 0 KiB given back
-> CUDA_ERROR_INVALID_VALUE => -> CUDA_SUCCESS
-> CUDA_ERROR_OUT_OF_MEMORY => -> CUDA_SUCCESS
with 257 MiB left => with -257 MiB left
    size, data and free memory are as before| =>
to 512 MiB => to 256 MiB
by steps of 64 MiB => by steps of 64 KiB
median of 45: => median of 9:
1.148 ms => 1.148 us
1.148 ms => nan ms
peak 1.00 => peak 7.00
peak 1.88 => peak 7.00
7.703, peak 1.88 => 7.703, peak 0.00
peak 1.50 => peak 1.00
moves 0 => moves 1
moves 7 => moves 0
moves 3 => moves 7
moves 8 => moves 0
this buffer   => cudaMalloc
    by doubling, this buffer               median of 9: 1.002 ms, fastest 0.896, peak 1.00, moves 0| =>
takes 0.99 times => takes times
chunks of 8 granules => chunks of 16 granules
not asked for: --full does it => done
is what it was at the start => is less than at the start
OK| =>
OK| => OK|more|
== 03_multi_gpu
    GPU 1 -> GPU 0: access yes, native atomics yes, performance rank 0| =>
GPU 1 -> GPU 0: => GPU 0 -> GPU 1:
GPU 1 -> GPU 0: => GPU 0 -> GPU 0:
GPU 1 -> GPU 0: => GPU 1 -> GPU 2:
access yes => access no
native atomics yes => native atomics maybe
performance rank 0 => performance rank -1
4096 KiB, mapped => 2048 KiB, mapped
access: GPU 0 none, GPU 1 none, => access: GPU 0 read and write, GPU 1 none,
GPU 0 none, GPU 1 read and write => GPU 0 read and write, GPU 1 none
any other GPU none => any other GPU read
    GPU 1 read 1048576 elements, each as expected; their sum is 2251485975506969, as on the CPU| =>
GPU 1 read 1048576 => GPU 0 read 1048576
read 1048576 elements => read 0 elements
read 1048576 elements => read 1048576 bytes
is 2253898046735436 => is 2253898046735437
GPU 0 read and write, GPU 1 read, => GPU 0 read, GPU 1 read and write,
GPU 0 read 1048576 => GPU 1 read 1048576
as on the CPU => not as on the CPU
    GPU 1 read 1048576 elements, each as expected; their sum is 2251968354757580, as on the CPU| =>
    GPU 0 read 1048576 elements, each as expected; their sum is 2252103074412777, as on the CPU| =>
2251968354757580, as on the CPU| => 2251968354757580, as on the CPU|    GPU 1 read 1048576 elements, each as expected; their sum is 1, as on the CPU|
4 stripes => 2 stripes
stripes of 2048 KiB => stripes of 4096 KiB
2097152 elements => 1048576 elements
sum is 4503280069663793 => sum is -4503280069663793
[7] Make one array => [8] Make one array
on every GPU is what => on GPU 0 is what
OK| =>
== 04_ipc_fd
2 processes => 1 processes
[2] Pass one gate for all| =>
: supported => : not supported
visible GPUs: 2 => visible GPUs: none
GPU R modulo => GPU 0 modulo
2048 KiB each => 0 KiB each
2048 KiB each => 2048 bytes each
each, poisoned => each
    2048 KiB of the previous worker => 4096 KiB of the previous worker
the fd is closed => the fd is open
every element => every other element
    every element of every worker's memory is what its neighbour wrote| =>
-> CUDA_ERROR_INVALID_VALUE => -> CUDA_SUCCESS
imported, type, 0)|      -> CUDA_ERROR_INVALID_VALUE => imported, type, 0)|      -> CUDA_SUCCESS
-> cudaErrorInvalidValue => -> cudaSuccess
    the interprocess call of cudaMalloc's memory|    cudaIpcGetMemHandle(&older, reinterpret_cast<void*>(own_address))|      -> cudaErrorInvalidValue| =>
on every worker's GPU => on worker 0's GPU
is what it was at the start => is not what it was at the start
every element is still there => no element is still there
the open fd alone held => the open fd did not hold
the fd closed: 2048 KiB => the fd closed: 0 KiB
the fd closed: 2048 KiB => the fd closed: 2048 MiB
the fd closed: 2048 KiB returned => the fd closed: 2048 KiB taken
[8] Outlive the exporter| =>
OK| =>
OK| => OK|ipc_fd: worker 1 was killed|
== 05_fabric
rank 0: exports => rank 0: imports
    rank 1: imports| =>
rank 0: NVIDIA H200, fabric handles are supported => rank 0: NVIDIA H200, fabric handles are not supported
    rank 1: NVIDIA H200, fabric handles are supported| =>
major number 242 => major number 243
major number 242 => major number -1
channel 0 opens => channel 1 opens
channel 0 opens => channel 0 does not open
    rank 1: channel 0 opens| =>
2048 KiB created => 4096 KiB created
2048 KiB created => 2048 bytes created
rank 0: 2048 KiB created => rank 1: 2048 KiB created
64 bytes exported => 63 bytes exported
2048 KiB imported => 0 KiB imported
rank 1: 2048 KiB imported => rank 0: 2048 KiB imported
mapped and poisoned => mapped
    rank 1: mapped| =>
    rank 1: mapped| => |
524288 integers written => 524287 integers written
written in a kernel => written by the host
524288 integers are => 0 integers are
what rank 1 wrote => what rank 0 wrote
rank 1: unmapped and released => rank 1: unmapped
    rank 1: unmapped and released|    rank 0: free => |    rank 0: free
is what it was at the start => is less than at the start
[10] Tear down| => [9] Tear down|
OK| =>
OK| => OK|OK|
== 06_multicast
nothing refuses it => something refuses it
    GPU 5: NVIDIA H200| =>
    GPU 7: NVIDIA H200| =>
GPU 5: => GPU 4:
GPU 7: => GPU 8:
GPU 3: NVIDIA H200 => GPU 3:
8 of 8 GPUs => 7 of 8 GPUs
8 of 8 GPUs => 8 of 9 GPUs
minimum 2048 KiB => minimum 2048 MiB
2097168 bytes wanted => 2097152 bytes wanted
4096 KiB with => 2048 KiB with
team of 8 GPUs => team of 7 GPUs
is complete => is not complete
4096 KiB on each GPU => 2048 KiB on each GPU
0x302400000 on => 0x302000000 on
multicast address 0x302000000 => multicast address 0x0
stored 262144 integers => stored 262143 integers
all 8 have them => all 2 have them
each of 8 GPUs added => each of 7 GPUs added
added its own 262144 => added its own 0
loaded the 262144 sums => loaded the 262144 bytes
round 1: 8 GPUs => round 1: 7 GPUs
round 2: 8 GPUs arrived => round 1: 8 GPUs arrived
the norm 836.100 => the norm nan
the norm 836.100 => the norm -836.100
    round 2: 8 GPUs arrived, and each has the norm 836.264| =>
1 MiB on each of 8 => 1 MiB on each of 4
us with multicast => ms with multicast
median of 11 => median of 1
free memory of every GPU is what => free memory of GPU 0 is what
OK| =>
== 07_aliasing
is supported => is not supported
NVIDIA H200: virtual => virtual
A is 0x7f3a4d000000 => A is 0x7f3a4d400000
B is 0x7f3a4d400000 => B is 0x0
4096 KiB each => 2048 KiB each
4096 KiB of memory taken => 8192 KiB of memory taken
4096 KiB of memory taken => 0 KiB of memory taken
in the next: all values are new => in the next: all values are old
all values are new => most values are new
    copied in through B, changed through A; read and copied out through B: all values are new| =>
old 1024, new 0 => old 1024, new 1024
old 1024, new 0 => old 1025, new 0
old 1024, new 0 => old 1023, new 0
old 1024, new 0 => old 2048, new -1024
old 0, new 1024 => old 1, new 1023
old 0, new 1024 => old 1024, new 0
A, fence, read => A, read
[6] Put a fence between| =>
16 records => 15 records
11 go over => 0 go over
in one piece => in two pieces
-> CUDA_ERROR_INVALID_VALUE => -> CUDA_SUCCESS
    cuMemUnmap(ring, granularity)|      -> CUDA_ERROR_INVALID_VALUE| =>
cuMemUnmap(ring, granularity) => cuMemUnmap(ring, 2 * size)
is what it was at the start => is more than at the start
OK| =>
OK| => KO|
"""

def mistakes(name):
    text = re.search(rf"^== {name}\n(.*?)(?=^== |\Z)", WRONG, re.MULTILINE | re.DOTALL)[1]
    for line in text.splitlines():
        old, _, new = line.partition(" =>")
        yield old.replace("|", "\n"), new.removeprefix(" ").replace("|", "\n")


class WrongOutputs(unittest.TestCase):
    def refused(self, path, output, change):
        self.assertIsNotNone(pair(expectations(path.read_text()), output)[1], f"{path}: {change} is not noticed")

    def test_each_recording_expects_what_was_printed_then(self):
        self.assertGreater(len(RECORDINGS), 16)
        for path in RECORDINGS:
            text = path.read_text()
            self.assertIsNone(pair(expectations(text), as_printed(text))[1], path)
            conditions = re.search("^# Recorded: (.*)$", text, re.MULTILINE)[1]
            self.assertEqual(record(text, as_printed(text), conditions), (text, None), path)

    def test_a_line_missing_twice_or_elsewhere(self):
        for path in RECORDINGS:
            lines = as_printed(path.read_text()).splitlines(keepends=True)
            for i, line in enumerate(lines):
                without = lines[:i] + lines[i + 1:]
                self.refused(path, "".join(without), f"without {line!r}")
                self.refused(path, "".join(lines[:i] + [line] + lines[i:]), f"{line!r} twice")
                if re.sub(r"\d+", "", lines[i - 1]) != re.sub(r"\d+", "", line):  # neighbours may be for two GPUs
                    self.refused(path, "".join(without[:i - 1] + [line] + without[i - 1:]), f"{line!r} too early")

    def test_a_value_that_is_not_what_it_was_elsewhere(self):
        changed = 0
        for path in RECORDINGS:
            text = path.read_text()
            names = re.findall(r"[a-z]+", " ".join(match[1] or "" for match in VALUE.finditer(text)))
            for match in VALUE.finditer(text):
                if match[2].startswith("0x"):
                    held, other = text.count(match[0]) > 1, hex(int(match[2], 16) + 1)
                else:
                    held, other = any(names.count(name) > 1 for name in re.findall(r"[a-z]+", match[1] or "")), "7"
                if held:
                    output = as_printed(text[:match.start()] + other + text[match.end():])
                    self.refused(path, output, f"{other} in place of {match[0]}")
                    changed += 1
        self.assertGreater(changed, 50)

    def test_what_a_reader_would_call_wrong(self):
        lessons = [path.parent.name for path in RECORDINGS if path.name == "expected_output.txt"]
        self.assertEqual(re.findall("^== (.*)$", WRONG, re.MULTILINE), lessons)
        for lesson in lessons:
            path = ROOT / lesson / "expected_output.txt"
            text, changes = as_printed(path.read_text()), list(mistakes(lesson))
            self.assertGreaterEqual(len(set(changes)), 20, lesson)
            for old, new in changes:
                self.assertIn(old, text, f"{lesson}: nothing to change")
                self.assertNotEqual(old, new, lesson)
                self.refused(path, text.replace(old, new, 1), (old, new))

    def test_one_gpu_fewer_everywhere_than_there_are(self):
        path = ROOT / "03_multi_gpu" / "measure_expected_output.txt"
        text = re.sub(r".*up to GPU 1: .*\n", "", as_printed(path.read_text()))
        self.assertIsNone(pair(expectations(path.read_text()), text, 1)[1])
        self.assertIsNotNone(pair(expectations(path.read_text()), text, 2)[1])


if __name__ == "__main__":
    unittest.main()
