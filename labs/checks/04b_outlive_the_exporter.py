# SPDX-License-Identifier: MIT-0
"""04b: memory lives as long as anybody holds it, in whatever process, and not as long as its maker.

One machine is enough: main takes one granule of GPU 0; what can differ is who is slow, and it does.
"""

from labs.judge.check import EXPORT, Run, check
from labs.judge.drawn import drawn

TITLE = "Outlive the exporter"
MINUTES = 10
SIZE = drawn("04b").randrange(4, 40, 2)  # MiB
MAINS = {"integers": 1 << 19}, {"integers": SIZE << 18, "changes": {"size = 2 << 20": f"size = {SIZE} << 20"}}
PAGE = "04_ipc_fd/README.md#4-outlive-the-exporter"
OUTPUT = """\
the exporter has ended
{integers} of {integers} integers are 7
"""
HINTS = [
    "What holds the memory once the importer has imported and mapped it? It is a handle and a mapping of its own.",
    "In the exporter: one read of one byte, and no more. What comes after it gives all back, and main returns.",
    "In the importer: write one byte to the socket, then waitpid(exporter, nullptr, 0), which returns when that "
    "process has ended.",
]
HINT_OF = {"exporter_ends_first": 3, "slow_importer": 3, "created_once": 1}


created_once = check("memory is created once, by the exporter", kept=True)(Run.must_create_once)


@check("the exporter has ended before the importer reads for the last time", points=3)
def exporter_ends_first(run):
    last_read, exporter = run.must_read_in_importer()[-1], run.calls(EXPORT)[0].pid
    its = [call for call in run.all if call.pid == exporter]
    wanted = "the exporter gives back what it has and exits, and then the importer reads"
    later = [call for call in its if call.index > last_read.index and call.name != "exit"]
    if later:
        raise last_read.wrong(wanted, f"the exporter was still there, and later called {later[-1].name}")
    if its[-1].name != "exit":
        raise last_read.wrong(wanted, "the exporter never came to its exit: a signal ended it")
    if its[-1].index > last_read.index or "the exporter has ended\n" not in run.stdout:
        happened = "its end was not waited for: that process can still be there"
        raise last_read.wrong("the importer waits for the end of the exporter, and then reads", happened)


@check(
    "it works as well where the import is slow, the exporter ends late and a sleep returns at once",
    points=3,
    slow_importer=True,
)
def slow_importer(run):
    if wrong := run.stopped():
        wrong.title = slow_importer.title
        raise wrong
    exporter_ends_first(run)
