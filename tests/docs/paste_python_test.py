#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""docs/paste/vmm.py at work on simulated GPUs, each of its calls failing in turn: paste_python_test.py VMMSIM [newest]

With the packages that this Python has; with `newest`, with those of tests/requirements-newest-python.txt, and with an
older cuda-core, which are fetched. On GPUs, where nothing fails: paste_python_test.py use. docs/paste is on the
PYTHONPATH. Exit status 0, 77 without the packages (newest: without a package index, a failure where CI is true), 1
otherwise.
"""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MiB = 1 << 20


def set_word(address, value):
    from cuda.bindings import driver
    from vmm import checked

    checked(driver.cuMemsetD32, address, value, 1)
    word = bytearray(4)
    checked(driver.cuMemcpyDtoH, word, address, 4)
    assert int.from_bytes(word, "little") == value, word


def raises(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"{call} raises nothing")


def use():
    """What the file promises, by cuda.bindings and by cuda.core."""
    import vmm
    from cuda.bindings import driver
    from cuda.core import Device

    Device(0).set_current()
    error = raises(vmm.VmmError, vmm.checked, driver.cuMemAddressReserve, 0, 0, 0, 0)
    assert error.call == "cuMemAddressReserve" and error.result == driver.CUresult.CUDA_ERROR_INVALID_VALUE, error
    with vmm.Buffer(20 * MiB, chunk=3 * MiB) as buffer:
        assert (buffer.chunk, buffer.reserved, buffer.size) == (4 * MiB, 20 * MiB, 0)
        buffer.grow(0)
        buffer.grow(1)
        address = buffer.address
        set_word(address, 7)
        buffer.grow(9 * MiB)
        assert (buffer.address, buffer.size) == (address, 12 * MiB)
        set_word(address + 12 * MiB - 4, 8)
        assert "reserved" in str(raises(ValueError, buffer.grow, 21 * MiB))
        buffer.shrink(5 * MiB)
        assert buffer.size == 8 * MiB
        buffer.shrink(7 * MiB)
        set_word(address + 8 * MiB - 4, 9)
    assert buffer.reserved == 0
    buffer.close()

    buffer = vmm.Buffer(8 * MiB)  # an undoing that the driver refuses
    buffer.grow(2 * MiB)
    true_calls = driver.cuMemSetAccess, driver.cuMemUnmap
    for again in lambda: buffer.grow(4 * MiB), lambda: buffer.shrink(2 * MiB):
        for name in "cuMemSetAccess", "cuMemUnmap":
            refused = lambda *_: (driver.CUresult.CUDA_ERROR_UNKNOWN,)  # noqa: E731
            refused.__name__ = name
            setattr(driver, name, refused)
        size = buffer.size
        assert raises(vmm.VmmError, buffer.grow, size + 2 * MiB).call == "cuMemSetAccess"
        assert buffer.size == size
        driver.cuMemSetAccess, driver.cuMemUnmap = true_calls
        again()
        set_word(buffer.address + buffer.size - 4, 10)
    assert buffer.size == 2 * MiB
    buffer.close()

    for _ in range(3):
        buffer = vmm.core_buffer(3 * MiB)
        assert buffer.size == 4 * MiB
        set_word(int(buffer.handle) + buffer.size - 4, 11)
        buffer.close()
    print("OK")


def once():
    """One life of a buffer. What fails changes nothing, and is done again; then the status is 1."""
    import vmm
    from cuda.bindings import driver

    driver.cuInit(0)
    failed = []

    def step(call, *arguments):
        try:
            return call(*arguments)
        except vmm.VmmError as error:
            failed.append(error)
            if buffer and buffer._mapped != buffer.size:
                print(f"{buffer._mapped} bytes are mapped, and {buffer.size} are in use")
                sys.exit(2)
            return call(*arguments)

    buffer = None
    buffer = step(vmm.Buffer, 8 * MiB)
    for size in 4 * MiB, 6 * MiB:
        step(buffer.grow, size)
        assert buffer.size == size
    step(buffer.shrink, 2 * MiB)
    step(buffer.close)
    step(vmm.core_buffer, MiB).close()
    if failed:
        sys.exit(str(failed[0]))


def program_of(python):
    return python, "-B", str(pathlib.Path(__file__).resolve())


def run(vmmsim):
    from tests.docs.paste_calls import expect_use, fail_in_turn, need
    from tests.machines import scratch

    need("cuda-bindings", "cuda-core")
    program = program_of(sys.executable)
    expect_use(vmmsim, program)
    with scratch() as directory:
        fail_in_turn(vmmsim, "1", (*program, "once"), directory / "trace")
    print(f"with cuda-bindings {importlib.metadata.version('cuda-bindings')}")


def run_newest(vmmsim):
    from tests.docs.paste_calls import expect_use
    from tests.machines import PACKAGE, Skip, need_index, scratch

    try:
        need_index()
    except Skip as skip:
        print(f"SKIP: {skip}")
        sys.exit(77)
    with scratch() as directory:
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
        python = directory / "venv" / "bin" / "python3"
        newest = ROOT / "tests/requirements-newest-python.txt"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "-r", newest], check=True)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/docs/paste:{PACKAGE.parent}"}
        command = [python, "-B", "-m", "tests.docs.paste_python_test", vmmsim]
        its_runtime = [vmmsim, "--gpus", "2", python, "-B", "-m", "vmmsim.testing.python_programs", "runtime"]
        for each in command, its_runtime:
            status = subprocess.run(each, cwd=ROOT, env=environment).returncode
            if status:
                sys.exit(status)
        older = "cuda-core==1.0.1"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", older], check=True)
        expect_use(vmmsim, program_of(python))
        print(f"with {older}")


def main(first, *more):
    if first in ("use", "once"):
        return globals()[first]()
    return run_newest(first) if more else run(first)


if __name__ == "__main__":
    main(*sys.argv[1:])
