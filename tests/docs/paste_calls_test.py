# SPDX-License-Identifier: MIT-0
"""Each call of a program to paste fails once."""

import pytest

from tests.docs.paste_calls import fail_in_turn, failing
from vmmsim.built import BUILT

GIVES_BACK = {"cuMemRelease", "cuMemUnmap", "cuMemAddressFree"}


@pytest.mark.parametrize(
    "name", ["serve", "growable", "host_numa", "sleep", "share_chunks", "fabric_or_fd", "multicast_processes"]
)
def test_a_snippet_gives_back_when_a_call_fails(name, tmp_path):
    fail_in_turn(BUILT["vmmsim"], "2", [BUILT[f"paste_{name}"], "once"], tmp_path / "trace")


def test_the_example_gives_back_when_a_call_fails(tmp_path):
    """All its calls, and it does not say which one failed."""
    own = list(failing((BUILT["vmmsim"], "1", [BUILT["paste_example"]]), tmp_path / "trace", bool))
    assert len(own) >= 10
    for call, leaks, output in own:
        assert call in GIVES_BACK or not leaks, output
