# SPDX-License-Identifier: MIT-0
"""The simulator answers random calls as hardware did: random_test RECORD LEAST COMMAND...

RECORD is the packed output of random_calls, whose first line ends with the seed and the count. LEAST is how many in a
hundred answers must be the same. No process may end otherwise than by itself.
"""

import lzma
import subprocess
import sys

from vmmsim.tests.random.compare import count, parse, report


def main(record, least, *command):
    with lzma.open(record, "rt", encoding="utf-8") as file:
        seed, calls = file.readline().split()[-2:]
        expected = parse(file)
    done = subprocess.run([*command, seed, calls], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode:
        return f"FAIL: exit status {done.returncode}"
    got = parse(done.stdout.splitlines())
    made, differ = count(expected, got)
    for kind in sorted({kind for kind, _ in made}):
        of_kind = [key for key in made if key[0] == kind]
        report(kind, sum(differ[key] for key in of_kind), sum(made[key] for key in of_kind))
    report("all", differ.total(), made.total())
    ended = {batch: how for batch, how in got.ends.items() if how != "exit 0"}
    if ended or got.ends.keys() != expected.ends.keys():
        return f"FAIL: batches that ended otherwise than by themselves, or not at all: {ended}"
    alike = 100 * (made.total() - differ.total()) / made.total()
    return None if alike >= float(least) else f"FAIL: {alike:.2f} in a hundred are alike, and {least} must be"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
