# SPDX-License-Identifier: MIT-0
"""The head of small programs in Python that call the driver: what a test runs as `python3 -c`."""

DRIVER = r"""
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
MiB = 1 << 20
def must(result):
    if result:
        sys.exit(f"error {result}")
def start():
    context = ctypes.c_void_p()
    must(cuda.cuInit(0))
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(cuda.cuCtxSetCurrent(context))
"""
