"""minGRU and minLSTM: token after token, Feng et al. 2024 (arXiv 2410.01201), Section 3."""

import torch
from torch import Tensor

from tests.definitions.rg_lru import recurrence
from zoo.mixers.min_rnn import MinRNN


def definition(m: MinRNN, x: Tensor) -> Tensor:
    parts = (x @ m.in_proj.weight.T).split(m.d_inner, dim=-1)
    wanted = torch.where(parts[0] >= 0, parts[0] + 0.5, torch.sigmoid(parts[0]))
    i = torch.sigmoid(parts[1])
    f = 1 - i
    if m.cell == "lstm":
        f = torch.sigmoid(parts[2])
        f, i = f / (f + i), i / (f + i)
    return recurrence(f, i * wanted) @ m.out_proj.weight.T
