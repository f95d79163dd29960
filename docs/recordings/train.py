# SPDX-License-Identifier: MIT-0
"""Training steps of a small language model: sequences of many lengths, AdamW, a copy of the weights at the end."""

# PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ./run.sh --view --real python3 docs/recordings/train.py
import random

import torch
from torch.nn import functional

VOCABULARY, WIDTH, LAYERS, STEPS = 8192, 512, 4, 40


def main():
    random.seed(0)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
    blocks = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    embedding, head = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)
    model = torch.nn.Sequential(embedding, blocks, head).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        length = random.randrange(64, 1024)
        words = torch.randint(VOCABULARY, (8, length + 1)).cuda()
        loss = functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    kept = {name: weight.cpu() for name, weight in model.state_dict().items()}
    most = torch.cuda.max_memory_reserved() >> 20
    print(f"{len(kept)} tensors kept, loss {loss.item():.2f}, at most {most} MiB reserved")


if __name__ == "__main__":
    main()
