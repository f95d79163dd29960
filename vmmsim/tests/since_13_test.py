# SPDX-License-Identifier: MIT-0
"""What drivers after 13.0 brought, on machines that have it and on others."""

import pathlib
import subprocess
import tempfile

from vmmsim.built import BUILT

PROGRAM, VMMSIM = BUILT["since_13"], BUILT["vmmsim"]
NEWEST = pathlib.Path(__file__).parent.parent / "simulator" / "machines" / "h200x8_cuda_13_5.conf"


def run_on(machine, part, *lines, status=0):
    """On a ready machine, or on the newest with other values of its keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        if isinstance(machine, dict):
            text = [line for line in NEWEST.read_text().splitlines() if line.split(" =")[0] not in machine]
            file.write("\n".join(text + [f"{key} = {value}" for key, value in machine.items()]) + "\n")
            file.flush()
            machine = file.name
        command = [VMMSIM, "--machine", machine, PROGRAM, part]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done
    assert done.stdout.splitlines() == list(lines), done.stderr


def names(driver, bind, newest, attributes, errors):
    """`bind`: the answers for cuMulticastBindMem, by version; `newest`: for a call of 13.4."""
    versions = 12040, 13000, 13010, 13040, 13050

    def answers(name, found):
        for version, what in zip(versions, found, strict=True):
            too_new = version > driver
            status = 0 if too_new or what in ("another", "the same") else what
            shown = what if status == 0 and not too_new else "null"
            yield f"{name}, {version}: {int(too_new)}, status {status}, {shown}"

    yield from answers("cuMemCreate", ["another", *["the same"] * 4])
    yield from answers("cuMulticastBindMem", bind)
    yield from answers("cuMulticastBindMem_v2", [1] * 5)  # a name has no version in it
    yield from answers("cuDeviceGetCliqueCount", newest)
    for attribute, value in zip((139, 147, 148, 149, 152, 160, 161, 162), attributes, strict=True):
        yield f"attribute {attribute}: " + ("1, -1" if value is None else f"0, {value}")
    for number, name in (47, "MULTICAST_RESOURCE_FULL"), (919, "FABRIC_NOT_READY"):
        yield f"error {number}: " + (f"0, CUDA_ERROR_{name}" if errors else "1, null")


def test_a_driver_has_the_names_of_its_release():
    same, other = "the same", "another"
    of_13_5 = [None, 0, 0, 1, 0, 2**31 - 1, 0, None]
    for driver, bind, newest, attributes in (
        ("12.4", [other, same, same, same, same], [1] * 5, [None] * 8),
        ("13.0", [other, same, same, same, same], [1] * 5, [None, 0] + [None] * 6),
        ("13.1", [other, same, other, same, same], [1] * 5, [None, 0, 0] + [None] * 5),
        ("13.5", [other, same, other, same, same], [2, 2, 2, other, same], of_13_5),
    ):
        number = int(driver[:2]) * 1000 + int(driver[3:]) * 10
        lines = names(number, bind, newest, attributes, driver == "13.5")
        run_on({"driver": driver}, "names", *lines)


def test_cliques_are_told():
    run_on(
        "h200x8_cuda_13_5",
        "cliques",
        "cluster: 0",
        "another GPU's: 0",
        "is that one: the same",
        "cliques of GPU 0: 2 and 2: 0/0 1/0",
        "cliques of the last: 2 and 2: 0/0 1/0",
        "no such GPU: 101",
        "a team of the first and the last: 0",
    )
    run_on(
        {"cliques": 2},
        "cliques",
        "cluster: 0",
        "another GPU's: 0",
        "is that one: the same",
        "cliques of GPU 0: 2 and 2: 0/0 1/0",
        "cliques of the last: 2 and 2: 0/0 1/1",
        "no such GPU: 101",
        "a team of the first and the last: 101",
    )


def test_the_host_may_have_a_replica():
    replica = "".join(f"{3 * i} " for i in range(16))
    run_on(
        "h200x8_cuda_13_5",
        "replica_on_host",
        "host memory, no GPU named: 101",
        "memory of another GPU: 101",
        "a GPU that is not of the team: 101",
        "its own: 0",
        "the host's: 0",
        "PTX 9.1: 0",
        f"replica of GPU 0: {replica}",
        f"replica on the host: {replica}",
    )


def test_a_full_switch_is_answered_as_the_release_does():
    for driver, answer in ("13.0", 2), ("13.5", 47):
        bound = "bind 0: 0", "bind 1: 0", f"bind 2: {answer}", "after an unbind: 0"
        run_on({"driver": driver, "multicast_slots": 2}, "slots", *bound)
    run_on({}, "slots", "bind 0: 0", "bind 1: 0", "bind 2: 0", "after an unbind: 1")


def test_parts_of_a_gpu_are_known_since_13():
    refused = "memory of 6, 256: 1", "memory of 6, 200: 101", "it is of: 1, GPU 1"
    run_on("h200x8_cuda_13_5", "memory", *refused)
    run_on("h200x8", "memory", *(f"memory of 6, {number}: 1" for number in (1, 256, 200, 1)))


def test_pools_have_the_attributes_of_the_release():
    values = 1, 0, 1, 1, 0, 0, -1
    lines = [f"attribute {number}: 0, {value}" for number, value in enumerate(values, 9)]
    run_on("h200x8_cuda_13_5", "pools", *lines, "attribute 16: 1, 0", "set: 1")
    run_on("h200x8", "pools", *(f"attribute {number}: 1, 0" for number in range(9, 17)), "set: 1")


def test_a_fabric_that_is_not_ready_is_answered_as_the_release_does():
    for driver, answer in ("13.0", 802), ("13.5", 919):
        lines = f"create: {answer}", f"memory with a fabric handle: {answer}"
        run_on({"driver": driver, "fabric_ready": "no"}, "fabric", *lines)
