# SPDX-License-Identifier: MIT-0
"""Whether a line makes sense: what changes is what the call is for, and the driver answers as the model does."""

from vmmsim.trace.line import SUCCESS, number

# What a call that succeeds must have changed, and nothing else; what is not here changes nothing.
CHANGED_BY = {
    "cuMemCreate": "create",
    "cuMemRelease": "release",
    "cuMemRetainAllocationHandle": "retain",
    "cuMemExportToShareableHandle": "export",
    "cuMemImportFromShareableHandle": "import",
    "cuMemAddressReserve": "reserve",
    "cuMemAddressFree": "free_reservation",
    "cuMemMap": "map",
    "cuMemUnmap": "unmap",
    "cuMemSetAccess": "access",
    "cuMulticastCreate": "multicast_create",
    "cuMulticastAddDevice": "add_device",
    "cuMulticastBindMem": "bind",
    "cuMulticastBindAddr": "bind",
    "cuMulticastUnbind": "unbind",
    "cudaMalloc": "allocate",
    "cudaFree": "free",
    "cudaMallocHost": "allocate",
    "cudaFreeHost": "free",
    "cudaIpcOpenMemHandle": "allocate",
    "cudaIpcCloseMemHandle": "free",
    "cudaDeviceEnablePeerAccess": "peer",
    "cudaDeviceDisablePeerAccess": "peer",
}
# A module's variables come with the first launch or question that needs them, and a pool's memory with what is wanted
# of it; any call that waits gives back what the pool does not need.
OF_MODULES = "cudaLaunch", "cudaFunc", "cudaMemcpyToSymbol", "cudaMemcpyFromSymbol", "cudaGetSymbol", "cudaGraph"


def of_changes(machine, process, line):
    kinds = {change["kind"] for change in line["changes"] if not is_of_pool(process, change)} - {"gone"}
    of_nothing = line["arguments"].get("devPtr", "") in (None, "0x0")
    wanted = CHANGED_BY.get(line["call"]) if line["result"] in SUCCESS and not of_nothing else None
    may_allocate = line["call"].startswith((*OF_MODULES, "cudaMallocAsync"))
    allowed = {"allocate"} if may_allocate else set()
    machine.demand(kinds - allowed == ({wanted} if wanted else set()), "a call changes what it is for")
    if wanted and wanted not in ("allocate", "free", "peer", "access"):
        machine.expect(wanted in kinds, "the recording tells what a call changed")


def is_of_pool(process, change):
    block = process.blocks.get(number(change.get("address")))
    return change["kind"] == "free" and block and block[2] == "cudaMallocAsync"


def of_access(machine, process, line):
    address, location = number(line["arguments"].get("ptr")), line["arguments"].get("location")
    _, mapping = process.mappings.at(address) if isinstance(address, int) else (None, None)
    if not machine.expect(mapping and isinstance(location, dict), "what it answers is about memory that is known"):
        return
    device = location.get("id") if location.get("type") == "CU_MEM_LOCATION_TYPE_DEVICE" else -1
    flags = mapping.access.get(device, 0) if isinstance(device, int) else None
    machine.expect(number(line["outputs"].get("flags")) == flags, "access is what cuMemGetAccess says")


def of_end(machine):
    for process in machine.processes.values():
        machine.expect(not process.handles, "all handles are released at the end")
        machine.expect(not process.mappings, "all is unmapped at the end")
        machine.expect(not process.reservations, "all reservations are freed at the end")
        left = [caller for _, _, caller in process.blocks.values() if not caller.startswith(OF_MODULES)]
        machine.expect(not left, "all is freed at the end")
    machine.expect(not any(memory.lives() for memory in machine.memory), "no memory lives at the end")
