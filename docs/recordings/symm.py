# SPDX-License-Identifier: MIT-0
"""Two processes, a GPU each: PyTorch's symmetric memory, which each opens to the other, and a sum by NCCL.

Multicast is not used: run it so.
"""

# TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NCCL_NVLS_ENABLE=0 ./run.sh --view --real python3 docs/recordings/symm.py
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory
import torch.multiprocessing as multiprocessing

NUMBERS = 1 << 22  # 16 MiB of float32


def work(rank, count):
    torch.cuda.set_device(rank)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29517")}
    dist.init_process_group("nccl", rank=rank, world_size=count)

    mine = symmetric_memory.empty(NUMBERS, dtype=torch.float32, device=f"cuda:{rank}")
    shared = symmetric_memory.rendezvous(mine, dist.group.WORLD.group_name)
    mine.fill_(rank + 1)
    shared.barrier()
    neighbour = (rank + 1) % count
    theirs = shared.get_buffer(neighbour, mine.shape, mine.dtype)  # an address here, memory there
    read = theirs[:1000].sum().item()
    shared.barrier()  # nobody frees what another still reads

    total = torch.full((NUMBERS,), rank + 1.0, device=f"cuda:{rank}")
    dist.all_reduce(total)
    print(
        f"rank {rank} read {read:.0f} from rank {neighbour}; the sum over all ranks is {total[0].item():.0f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    for name in "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NCCL_NVLS_ENABLE":
        if name not in os.environ:
            sys.exit(f"symm.py: set {name}, so that no multicast object is made; see the top of this file")
    multiprocessing.spawn(work, args=(2,), nprocs=2)
