# SPDX-License-Identifier: MIT-0
"""What machines refuse that are no H200s, by the keys of their files, and that each agrees with its attributes."""

import subprocess

import pytest

from vmmsim.built import BUILT


def answers(machine, question):
    run = [BUILT["vmmsim"], "--machine", machine, BUILT["machines_program"], question]
    return subprocess.run(run, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


def test_the_ninth_peer_is_refused():
    assert answers("ten_on_pcie", "peers") == [
        *(f"enable {gpu}: 0" for gpu in range(1, 9)),
        "enable 9: 711",
        "again: 704",
        "open to the last: 711",
        "open to the first: 0",
        "disable the first: 0",
        "close to the first: 0",
        "open to the last: 0",
    ]


def test_a_small_bar1_refuses_peer_access_and_not_vmm():
    assert answers("two_cards", "peers") == [
        "enable 1: 205",
        "again: 205",
        "open to the last: 0",
        "open to the first: 0",
        "disable the first: 705",
        "close to the first: 0",
        "open to the last: 0",
    ]


def test_a_switch_has_room_for_all():
    assert answers("h200x8", "peers")[:7] == [f"enable {gpu}: 0" for gpu in range(1, 8)]


@pytest.mark.parametrize("machine", ["laptop", "wsl2", "two_cards"])
def test_without_rdma_none_is_granted(machine):
    writes = ["attribute of its writes: none"] * 2
    assert answers(machine, "rdma") == ["attribute 0, create: 101", *writes, "dma-buf: 801"]


def test_with_rdma_it_is_granted():
    writes = ["attribute of its writes: some"] * 2
    assert answers("one_gpu", "rdma") == ["attribute 1, create: 0", *writes, "dma-buf: 0"]


def test_wsl_refuses_what_its_attributes_promise():
    assert answers("wsl2", "pools") == ["types 1, create: 0", "that is exported: 1"]
    assert answers("one_gpu", "pools") == ["types 1, create: 0", "that is exported: 0"]
    assert answers("no_fd_handles", "pools")[0] == "types 0, create: 0"


def test_wsl_has_few_addresses():
    assert answers("wsl2", "addresses") == ["1 GiB: 0", "31 GiB: 0", "32 GiB: 2", "64 GiB: 2"]
    assert answers("one_gpu", "addresses") == ["1 GiB: 0", "31 GiB: 0", "32 GiB: 0", "64 GiB: 0"]


def test_a_fabric_that_is_out_of_sync_maps_no_multicast_object():
    assert answers("fabric_out_of_sync", "multicast") == ["create: 0", "add: 0", "map: 401"]
    assert answers("h200x8", "multicast") == ["create: 0", "add: 0", "map: 0"]
