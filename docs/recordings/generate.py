# SPDX-License-Identifier: MIT-0
"""Words generated one by one, as by a server: a CUDA graph for each batch size, and a cache that grows beside it."""

# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ./run.sh --view --real python3 docs/recordings/generate.py
import sys

import torch
from torch.nn import functional

WIDTH, HEADS, LAYERS, BLOCK, WORDS = 1024, 16, 8, 64, 320


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.out = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, state, caches, at):
        """One word more for each sequence: caches has keys and values of each layer, at is where the new ones go."""
        for into, out, cache in zip(self.into, self.out, caches, strict=True):
            query, *new = into(state).view(-1, 3, HEADS, WIDTH // HEADS).unbind(1)
            for part, value in zip(cache, new, strict=True):
                part.index_copy_(2, at, value.unsqueeze(2))
            mask = (torch.arange(cache.shape[3], device=at.device) <= at).unsqueeze(0)
            found = functional.scaled_dot_product_attention(query.unsqueeze(2), *cache, attn_mask=mask)
            state = state + out(found.reshape(-1, WIDTH))
        return state


def empty_caches(batch, words):
    shape = (2, batch, HEADS, words, WIDTH // HEADS)
    return [torch.zeros(shape, device="cuda", dtype=torch.float16) for _ in range(LAYERS)]


def captured(model, state, caches, at):
    """A graph of one step. Its memory is in a pool of its own, as long as the graph is there."""
    model(state, caches, at)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        after = model(state, caches, at)
    return graph, after


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = Decoder().cuda().half()
    for batch in (32, 8):
        state = torch.randn(batch, WIDTH, device="cuda", dtype=torch.float16)
        at = torch.zeros(1, dtype=torch.long, device="cuda")
        caches, graph = [], None
        for word in range(WORDS):
            if word % BLOCK == 0:  # the caches are full: larger ones, and a graph that knows their addresses
                longer = empty_caches(batch, word + BLOCK)
                for old, new in zip(caches, longer, strict=False):
                    new[:, :, :, :word] = old
                at.fill_(word)
                caches = longer
                graph, after = captured(model, state, caches, at)
            at.fill_(word)
            graph.replay()
            state.copy_(functional.normalize(after))
        if "--wait" in sys.argv:
            torch.cuda.synchronize()  # or the graphs' memory is unmapped below while the last of them still runs
        print(f"batch {batch}: {WORDS} words, {torch.cuda.memory_reserved() >> 20} MiB reserved")
        del caches, graph, after, state
        torch.cuda.empty_cache()
    print(f"at the end {torch.cuda.memory_reserved() >> 20} MiB, at most {torch.cuda.max_memory_reserved() >> 20} MiB")


if __name__ == "__main__":
    main()
