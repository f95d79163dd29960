#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""docs/paste/vmm_sleep.py at work on a simulated GPU, each of its calls failing in turn: ..._test.py VMMSIM

On a GPU, where those calls fail that the test refuses itself: paste_sleep_python_test.py use. Exit status 0, 77
without the packages, 1 otherwise.
"""

import pathlib
import sys

MiB = 1 << 20
OF_SLEEP = "cuCtxSynchronize", "cuMemAllocHost", "cuMemcpyDtoH", "cuDeviceGraphMemTrim", "cuMemUnmap"
OF_WAKE = "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemcpyHtoD"


def start():
    """Makes a context of GPU 0 current."""
    from cuda.bindings import driver
    from vmm import checked

    assert driver.cuInit(0) == (driver.CUresult.CUDA_SUCCESS,)  # no call of a snippet, which would look all others up
    checked(driver.cuCtxSetCurrent, checked(driver.cuDevicePrimaryCtxRetain, 0))


def word(address):
    from cuda.bindings import driver
    from vmm import checked

    found = bytearray(4)
    checked(driver.cuMemcpyDtoH, found, address, 4)
    return int.from_bytes(found, "little")


def free_memory():
    from cuda.bindings import driver

    result, free, _ = driver.cuMemGetInfo()
    assert result == driver.CUresult.CUDA_SUCCESS
    return free


def made():
    from cuda.bindings import driver
    from vmm import checked
    from vmm_sleep import SleepingMemory

    memory = SleepingMemory()
    weights, more = memory.add(3 * MiB, keep=True), memory.add(2 * MiB, keep=True)
    memory.add(8 * MiB, keep=False)
    assert weights.size == 4 * MiB
    memory.wake()
    for value, each in enumerate([weights, more], 7):
        checked(driver.cuMemsetD32, each.address, value, each.size // 4)
    return memory


def expect_content(memory):
    for value, each in enumerate(memory.mappings[:2], 7):
        assert word(each.address) == word(each.address + each.size - 4) == value, each.address


def states(memory):
    return {each.state for each in memory.mappings}


def use():
    """Several sleeps; and each call failing in each state, its undoing refused or not."""
    from vmm_sleep import ASLEEP, AWAKE

    start()
    memory = made()
    free = free_memory()
    for _ in range(3):
        memory.sleep()
        assert states(memory) == {ASLEEP}
        assert free_memory() >= free + 12 * MiB, (free_memory(), free)
        memory.wake()
        assert states(memory) == {AWAKE}
        expect_content(memory)
    memory.close()
    memory.close()

    for name in OF_SLEEP + OF_WAKE:
        for nth in 1, 2:
            for refuses_undoing in True, False:
                for then in "sleep", "wake":
                    expect_to_go_on(name, nth, refuses_undoing, then)
    print("OK")


def expect_to_go_on(name, nth, refuses_undoing, then):
    from cuda.bindings import driver
    from vmm import VmmError
    from vmm_sleep import ASLEEP, AWAKE

    memory, count = made(), 0
    if name in OF_WAKE:
        memory.sleep()
    before, true_call, true_unmap = states(memory), getattr(driver, name), driver.cuMemUnmap

    def refuse(*_):
        return (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY,)

    def fail_once(*arguments):
        nonlocal count
        count += 1
        if count != nth:
            return true_call(*arguments)
        if refuses_undoing:
            driver.cuMemUnmap = refuse
        return refuse()

    fail_once.__name__ = refuse.__name__ = name
    setattr(driver, name, fail_once)
    try:
        memory.wake() if name in OF_WAKE else memory.sleep()
    except VmmError as error:
        assert error.call == name and error.result == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, error
        assert states(memory) == before or refuses_undoing or name == "cuMemUnmap", (name, states(memory))
    else:
        assert nth > count == 1, (name, nth, count)  # which is called once
    setattr(driver, name, true_call)
    driver.cuMemUnmap = true_unmap
    getattr(memory, then)()
    assert states(memory) == {ASLEEP if then == "sleep" else AWAKE}
    memory.wake()
    expect_content(memory)
    memory.close()


def once():
    """One life. What fails is done again; then the status is 1."""
    from vmm import VmmError
    from vmm_sleep import SleepingMemory

    start()
    failed = []

    def step(call, *arguments):
        try:
            return call(*arguments)
        except VmmError as error:
            failed.append(error)
            return call(*arguments)

    memory = SleepingMemory()
    for keep in True, False:
        step(memory.add, MiB, keep)
    for call in memory.wake, memory.sleep, memory.wake, memory.close:
        step(call)
    if failed:
        sys.exit(str(failed[0]))


def run(vmmsim):
    from tests.docs.paste_calls import expect_use, fail_in_turn, need
    from tests.machines import scratch

    need("cuda-bindings")
    program = sys.executable, "-B", str(pathlib.Path(__file__).resolve())
    expect_use(vmmsim, program)
    with scratch() as directory:
        fail_in_turn(vmmsim, "1", (*program, "once"), directory / "trace")


def main(first):
    return globals()[first]() if first in ("use", "once") else run(first)


if __name__ == "__main__":
    main(*sys.argv[1:])
