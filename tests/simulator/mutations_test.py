#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""Mistakes put into a lesson are found on the simulator: mutations_test.py VMMSIM LESSON EXPECTED NVCC [FLAGS...]

Each mistake is one replacement in the source of the lesson. The program built from it must fail, print something else
than was recorded, or leave something that --leaks reports; and say what is named here. Unchanged, it must do none of
these. The lesson and all that is made of it are one program, each in a namespace of its own: most of the time of a
compiler goes into the headers, which all of them share.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from sim_test import HERE, SMALL, SMALL_CHANGES, changed, difference

ROOT = HERE.parent.parent
LIMIT = 60  # seconds

# For each lesson: what is wrong => what is seen then, a regular expression; what stands there; what is put there.
MISTAKES = r"""
== 01_vmm_basics/vmm_basics.cu
no access for the first mapping => access is 0 after
-   CHECK(cuMemSetAccess(a, size, &descriptor, 1));
no access for the second mapping => FAULT
-   CHECK(cuMemSetAccess(b, size, &descriptor, 1));
read only => access is 1 after
- descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
+ descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READ
the handle is not released => bytes are free
-   CHECK(cuMemRelease(handle));
-   CHECK(cuMemAddressFree(b
+   CHECK(cuMemAddressFree(b
the handle is released twice => failed cuMemRelease
-   CHECK(cuMemRelease(handle));
-   CHECK(cuMemAddressFree(b
+   CHECK(cuMemRelease(handle));
+   CHECK(cuMemRelease(handle));
+   CHECK(cuMemAddressFree(b
a reservation is not freed => LEAK
-   CHECK(cuMemAddressFree(a, reserved));
the first mapping is not unmapped => failed cuMemAddressFree\(a
-   CHECK(cuMemUnmap(a, size));
an offset => failed cuMemMap\(a
- cuMemMap(a, size, 0, handle, 0)
+ cuMemMap(a, size, granularity, handle, 0)
the last element is wrong => the kernel summed
- data[i] = value;
+ data[i] = value + (i == n - 1);
the wrong GPU => properties are not those
- properties.location.id = device;
+ properties.location.id = device + 1;
not mapped at all => failed cuMemSetAccess\(b
-   CHECK(cuMemMap(b, size, 0, handle, 0));
== 02_growable/growable.cu
access for the wrong range => FAULT|CUDA_ERROR_INVALID_VALUE
- cuMemSetAccess(base + size, target - size
+ cuMemSetAccess(base, target - size
access for the first chunk only => FAULT
- cuMemSetAccess(base + size, target - size
+ cuMemSetAccess(base + size, chunk
chunks are not released => bytes are free|KiB of data, memory taken
- const CUresult released = cuMemRelease(handle);
+ const CUresult released = CUDA_SUCCESS;
no rollback => before the attempt
- else if (mapped > size) cuMemUnmap(base + size, mapped - size);
8 bytes are not copied => hold their value
- cudaMemcpyAsync(next, data, size,
+ cudaMemcpyAsync(next, data, size - 8,
one word is not filled => hold their value
- i = first + start; i < last
+ i = first + start; i + 1 < last
the reservation is not freed => LEAK
- if (result == CUDA_SUCCESS && reserved) result = cuMemAddressFree(base, reserved);
shrinks one chunk too far => FAULT
- ? round_up(wanted, chunk) : size;
-     const CUresult result = target
+ ? wanted / chunk * chunk - (wanted > 0) * chunk : size;
+     const CUresult result = target
== 03_multi_gpu/multi_gpu.cu
open to the owner, not to the peer => the access of GPU 0 is 3
- alone = grant(1, read_write)
+ alone = grant(0, read_write)
the ring is read only to the peer => FAULT
- grant((gpu + gpus - 1) % gpus, read_write)
+ grant((gpu + gpus - 1) % gpus, read_only)
the launch goes to another GPU => FAULT
-   CHECK(cudaSetDevice(gpu));  // a launch goes to the current device, wherever its pointers lead
a wrong element => elements wrong
- data[i] = value(seed, i);
+ data[i] = value(seed, i ^ (i == last - 1));
the ring stays mapped => failed cuMemAddressFree\(ring
-   CHECK(cuMemUnmap(ring, gpus * size));
the array is open to one GPU only => FAULT
- everyone.data(), everyone.size()
+ everyone.data(), 1
all stripes on one GPU => failed cuMemCreate
- properties.location.id = int(s % gpus);
+ properties.location.id = int(s % gpus) + 9;
== 04_ipc_fd/ipc_fd.cu
the last fd stays open => bytes returned with the last
-     close(fd);
-     const size_t returned
+     const size_t returned
made without the handle type => failed cuMemExportToShareableHandle
-   properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
the fd's address, not the fd => failed cuMemImportFromShareableHandle
- reinterpret_cast<void*>(intptr_t(fd))
+ reinterpret_cast<void*>(&fd)
open to the memory's GPU, not to the user's => FAULT
- address = map(imported, offer.size, properties.location);
+ address = map(imported, offer.size, {CU_MEM_LOCATION_TYPE_DEVICE, {home}});
a wrong byte => element .* not of seed
- data[i] = 2654435761u * i + seed;
+ data[i] = 2654435761u * i + seed + (i == n - 1);
handles are not released => bytes are free
-   CHECK(cuMemRelease(memory));
read only => FAULT
- descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE
+ descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READ
the lender does not wait for the borrower => had to|sent nonsense
-   barrier(control, BORROWED);
== 05_fabric/fabric.cu
made for fds => cuMemExportToShareableHandle answers CUDA_ERROR_INVALID_VALUE
- requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC
+ requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
the importer writes something else => element 0 is
- (data, n, shared.seed);
+ (data, n, shared.seed + 1);
no access => FAULT
-   CHECK(cuMemSetAccess(address, shared.size, &descriptor, 1));
the handle is not released => bytes are free
-   CHECK(cuMemRelease(memory));
-   CHECK(cuMemAddressFree
+   CHECK(cuMemAddressFree
a wrong byte in the handle => cuMemImportFromShareableHandle
- Message shared = rank == 0 ? mine : theirs;
+ Message shared = rank == 0 ? mine : theirs;
+   shared.handle.data[7] ^= 1;
not unmapped => failed cuMemAddressFree
-   CHECK(cuMemUnmap(address, shared.size));
== 06_multicast/multicast.cu
one GPU has bound nothing => FAULT
-     CHECK(cuMulticastBindMem(
+     if (gpu.rank > 0) CHECK(cuMulticastBindMem(
an ordinary store at the multicast address => FAULT
- store_all(out_mc + i, in[i]);
+ out_mc[i] = in[i];
stores instead of adding => element .* is .* not
- add_all(out_mc + i, in[i]);
+ store_all(out_mc + i, in[i]);
one element is not reduced => element .* is .* not
- i < n; i += thread_count()) out[i] = sum_all
+ i + 1 < n; i += thread_count()) out[i] = sum_all
arrives at its own replica only => not all GPUs arrived
- arrive(&mc->arrived);
+ atomicAdd(&own->arrived, 1);
the object is open to one GPU only => FAULT
- cuMemSetAccess(mc, size, everyone.data(), count)
+ cuMemSetAccess(mc, size, everyone.data(), 1)
memory is not released => bytes are free
-     CHECK(cuMemRelease(gpu.memory));
the object is not released => LEAK|bytes are free
-   CHECK(cuMemRelease(object));
nothing is unbound => LEAK|bytes are free
-     CHECK(cuMulticastUnbind(object, gpu.device, 0, size));  // offset and size as in the bind
-     CHECK(cuMemRelease(gpu.memory));
-   }
-   CHECK(cuMemRelease(object));
+     CHECK(cuMemRelease(gpu.memory));
+   }
the last share ends early => element .* is .* not
- launch(gpu, n / 4 * gpu.rank / count, n / 4 * (gpu.rank + 1) / count);
+ launch(gpu, n / 4 * gpu.rank / count, n / 4 * (gpu.rank + 1) / count - 1);
a team of one more => failed cuMulticast
- properties.numDevices = count;
+ properties.numDevices = count + 1;
== 07_aliasing/aliasing.cu
no fence => read the old value behind the fence
-   cuda::ptx::fence_proxy_alias();
half of the ring is open => FAULT
- cuMemSetAccess(ring, 2 * size,
+ cuMemSetAccess(ring, size,
the ring is not mapped twice => failed cuMemSetAccess\(ring
-   CHECK(cuMemMap(ring + size, size, 0, handle, 0));
the handle is not released => bytes are free
-   CHECK(cuMemRelease(handle));
a wrong word => element .* is .* not
- to[i] = from[i] + plus;
+ to[i] = from[i] + plus + (i == n - 1);
the ring's addresses stay => LEAK
-   CHECK(cuMemAddressFree(ring, 2 * size));
"""


def mistakes(lesson):
    """(what is wrong, what is seen, what stands there, what is put there) of each."""
    text = re.search(rf"^== {lesson}\n(.*?)(?=^== |\Z)", MISTAKES, re.MULTILINE | re.DOTALL).group(1)
    for what, seen, old, new in re.findall(r"^(\w.*) => (.*)\n((?:- .*\n)+)((?:\+ .*\n)*)", text, re.MULTILINE):
        seen = seen.replace("FAULT", "cudaErrorIllegalAddress").replace("LEAK", "vmmsim: leak: ")
        yield what, seen, *("\n".join(line[2:] for line in part.splitlines()) for part in (old, new))


def build(texts, directory, source, nvcc):
    """One program of all these texts. The environment's MISTAKE, 0 for the first, says which of them is to run."""
    copy = directory / "lesson" / source.name  # beside common, as in the checkout
    copy.parent.mkdir()
    include = re.compile(r"^(?:#include .*|#ifdef .*\n(?:#include .*\n)+#endif)\n", re.MULTILINE)
    with open(copy, "w") as file:
        file.writelines(include.findall(texts[0]))
        for number, text in enumerate(texts):
            file.write(f"namespace mistake_{number} {{\n{include.sub('', text)}}}\n")
        file.write("int main(int count, char** arguments) {\n  switch (std::atoi(std::getenv(\"MISTAKE\"))) {\n")
        for number in range(len(texts)):
            file.write(f"    case {number}: return mistake_{number}::main(count, arguments);\n")
        file.write("  }\n}\n")
    (directory / "common").symlink_to(ROOT / "common")
    # One architecture, and only its PTX: that is what the simulator runs.
    command = [*nvcc, "-std=c++17", "-gencode", "arch=compute_90,code=compute_90", "--no-compress", copy]
    done = subprocess.run([*command, "-o", directory / source.stem], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAIL: it does not build:\n{done.stdout}{done.stderr}")
    return directory / source.stem


def problems(vmmsim, program, mistake, expected):
    """Runs it with this mistake. "" if all is well, else all that it says."""
    command = [vmmsim, "--strict", "--gpus", "2", "--leaks", program, *SMALL[program.name]]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                              env={**os.environ, "MISTAKE": str(mistake)})
    except subprocess.TimeoutExpired:
        return f"it had not ended after {LIMIT} s"
    wrong = difference(expected, done.stdout, command)
    if done.returncode or done.stderr or wrong:
        return f"exit status {done.returncode}, {wrong}\n{done.stdout}{done.stderr}"
    return ""


def main(vmmsim, lesson, expected_file, *nvcc):
    source = ROOT / lesson
    text, expected = source.read_text(), changed(expected_file, SMALL_CHANGES.get(source.stem, []))
    cases = [("unchanged", "", "", ""), *mistakes(lesson)]
    for what, _, old, new in cases[1:]:
        if text.count(old) != 1 or old == new:
            sys.exit(f"FAIL: {what}: {text.count(old)} places in {source} have {old!r}")

    def check(numbered):
        number, (what, seen, _, _) = numbered
        told = wrong = problems(vmmsim, program, number, expected)
        if number > 0:
            wrong = "" if re.search(seen, told) else f"expected {seen!r}, seen:\n{told or 'all was well'}"
        return f"{'FAIL' if wrong else 'ok'}: {what}{wrong and ': ' + wrong}"

    bad = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = [text, *(text.replace(old, new) for _, _, old, new in cases[1:])]
        program = build(texts, pathlib.Path(scratch), source, nvcc)
        for line in pool.map(check, enumerate(cases)):
            print(line, flush=True)
            bad += line.startswith("FAIL")
    if bad:
        sys.exit(f"FAIL: {bad} of {len(cases)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
