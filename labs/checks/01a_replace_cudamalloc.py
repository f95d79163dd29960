# SPDX-License-Identifier: MIT-0
"""01a: the driver does not round a size, and a mapping alone grants nobody access."""

from labs.judge.check import Run, check
from labs.judge.drawn import drawn

TITLE = "Replace cudaMalloc"
MINUTES = 15
SIZE = drawn("01a").randrange(4, 40, 2)  # MiB, whole granules
MAINS = {"bytes": (5 << 20) + 1}, {"bytes": SIZE << 20, "changes": {"(5 << 20) + 1": f"{SIZE} << 20"}}
PAGE = "01_vmm_basics/README.md#1-get-addresses-and-memory"
ELSEWHERE = ({"gpus": 3, "machine": "granules_of_16_mib"},)
OUTPUT = "{bytes} of {bytes} bytes are 42\n"
HINTS = [
    "cudaMalloc does four things in one call. Which four calls of the driver do them? The page has a step for each.",
    "cuMemCreate takes whole granules only. Ask cuMemGetAllocationGranularity how large one is, and round up: 5 MiB "
    "and 1 byte need (bytes + granule - 1) / granule granules.",
    "The same size, in whole granules, goes to cuMemCreate, cuMemAddressReserve, cuMemMap and cuMemSetAccess.",
    "A mapping grants nobody access, not even the GPU that holds the memory. cuMemSetAccess needs a CUmemAccessDesc "
    "with the location of GPU 0 and CU_MEM_ACCESS_FLAGS_PROT_READWRITE.",
    "Give back in reverse order: cuMemUnmap, cuMemRelease, cuMemAddressFree. cudaFree does not know this memory.",
]
HINT_OF = {"not_allocated": 1, "asked": 2, "whole_granules": 2, "used": 4, "GIVEN_BACK": 5}


@check("no memory comes from cudaMalloc", points=2)
def not_allocated(run):
    for call in run.ordinary_memory():
        raise call.wrong("all memory is created by cuMemCreate", f"{call.name} was called")


@check("the granularity is asked for before memory is created", points=3)
def asked(run):
    created = next((call for call in run.all if call.name == "cuMemCreate"), None)
    if not created:
        raise run.wrong("memory is created by cuMemCreate", "cuMemCreate was not called")
    asked = run.calls("cuMemGetAllocationGranularity")
    wanted = "before, cuMemGetAllocationGranularity says how large a granule of GPU 0 is"
    if not asked or asked[0].index > created.index:
        raise created.wrong(wanted, "memory was created without asking: on another GPU a granule may be larger")
    gpu_0 = {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": 0}
    if not any(call.arguments["prop"]["location"] == gpu_0 for call in asked):
        raise asked[0].wrong(wanted, "it was asked of another place: prop.location says whose granule it is")


@check("memory is created in whole granules, as few as hold 5 MiB and 1 byte", points=3)
def whole_granules(run):
    granule = run.calls("cuMemGetAllocationGranularity")[0].outputs["granularity"]
    wanted, created = (run.main.bytes + granule - 1) // granule, 0
    words = f"{run.main.bytes} bytes need {wanted} granules of {granule} bytes: {wanted * granule} bytes"
    for call in (call for call in run.all if call.name == "cuMemCreate"):
        if call.argument("size") % granule:
            happened = f"{call.argument('size')} bytes were asked for: no whole granules, and the driver does not round"
            raise call.wrong(words, happened)
        created += call.argument("size")
    if created != wanted * granule:
        raise call.wrong(words, f"{created} bytes were asked for: {created // granule} granules")


@check(
    "the kernels use memory that is mapped, and GPU 0 may read and write it",
    page="#2-map-the-memory-and-let-the-gpu-in",
    points=3,
)
def used(run):
    run.must_work(0, 0)


answers = check("each answer is looked at", kept=True, main=0)(Run.must_look_at_answers)
