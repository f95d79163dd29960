# SPDX-License-Identifier: MIT-0
"""Tensors of many sizes, of which some go; then PyTorch's snapshot. It made torch_blocks.jsonl.gz and .pickle.gz."""

# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vmmsim view --gpus 1 --record torch_blocks.jsonl \
#   python3 torch_blocks.py torch_blocks.pickle
# with PyTorch 2.11.0 on simulated GPUs, where it allocates and computes nothing: its kernels are no PTX.
import sys

import torch

MIB = 1 << 20


def layer(size):
    return torch.empty(size * MIB, dtype=torch.uint8, device="cuda")


def main():
    torch.cuda.memory._record_memory_history(stacks="python")
    weights = [layer(size) for size in (8, 4, 8)]
    del weights[1]
    caches = [layer(size) for size in (12, 1, 3, 5, 7, 9, 11)]
    del caches[1::2]
    with torch.cuda.stream(torch.cuda.Stream()):
        other = layer(6)
    few = torch.empty(1000, device="cuda")
    torch.cuda.memory._dump_snapshot(sys.argv[1])
    del caches, other, few
    torch.cuda.empty_cache()
    print(f"{torch.cuda.memory_reserved() // MIB} MiB stay reserved")


if __name__ == "__main__":
    main()
