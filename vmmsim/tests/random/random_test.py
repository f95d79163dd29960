# SPDX-License-Identifier: MIT-0
"""The simulator answers random calls as hardware did: as the packed output of random_calls says, which names its seed.

No process may end otherwise than by itself.
"""

import lzma
import pathlib
import subprocess

import pytest
from tests.random.compare import count, parse, report

from vmmsim.built import BUILT

LEAST = 99.4  # of a hundred answers must be those of an H100


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_those_of_an_h100(seed):
    record = pathlib.Path(__file__).with_name(f"calls_of_seed_{seed}.txt.xz")
    with lzma.open(record, "rt", encoding="utf-8") as file:
        words = file.readline().split()[-2:]
        expected = parse(file)
    command = [BUILT["vmmsim"], "--machine", "no_channel", "--gpus", "1", BUILT["random_calls"], *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    got = parse(done.stdout.splitlines())
    made, differ = count(expected, got)
    for kind in sorted({kind for kind, _ in made}):
        of_kind = [key for key in made if key[0] == kind]
        report(kind, sum(differ[key] for key in of_kind), sum(made[key] for key in of_kind))
    assert {batch: how for batch, how in got.ends.items() if how != "exit 0"} == {}
    assert got.ends.keys() == expected.ends.keys()
    assert 100 * (made.total() - differ.total()) >= LEAST * made.total()
