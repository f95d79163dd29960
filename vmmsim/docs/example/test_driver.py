# SPDX-License-Identifier: MIT-0
import ctypes
import time

import pytest


@pytest.fixture
def cuda():
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    return driver


def test_memory_comes_back(cuda):
    free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
    assert cuda.cuMemFree_v2(address) == 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert 0 < free.value < total.value


@pytest.mark.needs_a_gpu  # a simulator says nothing about speed
def test_it_is_fast(cuda):
    began = time.monotonic()
    assert cuda.cuCtxSynchronize() == 0
    assert time.monotonic() - began < 1e-4
