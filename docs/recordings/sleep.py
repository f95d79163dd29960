# SPDX-License-Identifier: MIT-0
"""A server that sleeps: its weights leave the GPU, and come back to the addresses that they had."""

# pip install torch-memory-saver==0.0.10; H is torch_memory_saver_hook_mode_preload_cu13.abi3.so of that package
# ./run.sh --view --real env LD_PRELOAD=$H python3 docs/recordings/sleep.py
import torch
from torch_memory_saver import torch_memory_saver as saver

WIDTH, LAYERS = 4096, 16


def main():
    torch.manual_seed(0)
    with saver.region(tag="weights", enable_cpu_backup=True):
        weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.float16) for _ in range(LAYERS)]
    with saver.region(tag="cache"):
        cache = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda")
    state = torch.randn(64, WIDTH, device="cuda", dtype=torch.float16)
    for _ in range(2):
        before = weights[0].data_ptr(), weights[0].sum(dtype=torch.float32).item()
        for weight in weights:
            state = torch.nn.functional.normalize(state @ weight)
        saver.pause("cache")  # what is in it is lost
        saver.pause("weights")  # they are in the host's memory now
        other = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")  # somebody else's turn
        del other
        torch.cuda.empty_cache()
        saver.resume("weights")
        saver.resume("cache")
        assert before == (weights[0].data_ptr(), weights[0].sum(dtype=torch.float32).item())
    print(f"the same weights at the same addresses, twice; the cache has {cache.numel() >> 20} MiB")


if __name__ == "__main__":
    main()
