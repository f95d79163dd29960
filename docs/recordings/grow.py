# SPDX-License-Identifier: MIT-0
"""A training step, then a tensor that grows by what is appended to it, as the cache of a language model does."""

# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ./run.sh --view --real python3 docs/recordings/grow.py
import torch

MIB = 1 << 20


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = model(torch.ones(256, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()

    cache = torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")
    for _ in range(8):
        more = torch.ones(32 * MIB, dtype=torch.uint8, device="cuda")
        cache = torch.cat([cache, more])  # a new tensor each time: the old one and the new one must both fit
    print(f"{cache.numel() // MIB} MiB, sum {cache.sum(dtype=torch.int64).item()}")
    del cache, more
    torch.cuda.empty_cache()
    left, most = torch.cuda.memory_reserved() // MIB, torch.cuda.max_memory_reserved() // MIB
    print(f"{left} MiB stay reserved, the most was {most} MiB")


if __name__ == "__main__":
    main()
