"""A mixer that breaks one law of zoo.mixers.laws, or none: a fading sum of what it has read."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cache import BUFFER
from zoo.mixers.state import StateSize


class State(NamedTuple):
    s: Tensor  # [B D]
    dead: Any = None


class Flawed(Mixer[State]):
    """s_t = s_{t-1} / 2 + x_t, y_t = W x_t + s_t."""

    def __init__(self, *, d_model: int, flaw: str) -> None:
        super().__init__()
        self.flaw, self.d_model = flaw, d_model
        self.proj = nn.Linear(d_model, d_model)
        self.noise = torch.Generator().manual_seed(0)
        if flaw == "an idle parameter":
            self.idle = nn.Parameter(torch.ones(1))
        if flaw == "a parameter that nobody draws":
            self.proj.weight = nn.Parameter(torch.empty(d_model, d_model))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        s = torch.zeros_like(x[:, 0]) if state is None or self.flaw == "it forgets its state" else state.s
        if self.flaw == "it writes into its state" and not torch.is_grad_enabled():
            s.mul_(0.9)
        sums = []
        for t in range(x.shape[1]):
            s = s / 2 + x[:, t]
            sums.append(s)
        return self._flawed(self.proj(x) + torch.stack(sums, dim=1), x), self._state(s)

    def _flawed(self, y: Tensor, x: Tensor) -> Tensor:
        if self.flaw == "its outputs are wider":
            return torch.cat([y, y], dim=2)
        if self.flaw == "its outputs are in double":
            return y.double()
        if self.flaw == "it sees the future":
            return y + x.mean(dim=1, keepdim=True)
        if self.flaw == "it sees the length":
            return y * x.shape[1]
        if self.flaw == "it is another one after 64 tokens" and x.shape[1] > 64:
            return torch.cat([y[:, :64], 2 * y[:, 64:]], dim=1)
        if self.flaw == "it remembers more than it keeps":
            return y + x.cumsum(dim=1)
        if self.flaw == "it makes noise":
            return y + torch.rand(y.shape, generator=self.noise)
        if self.flaw == "it draws from torch's generator" and self.training:
            return y * torch.rand(())
        if self.flaw == "it branches on its input" and x.sum() > 0:
            return y * 2
        return y

    def _state(self, s: Tensor) -> State:
        if self.flaw == "it keeps what it never reads":
            return State(s, s)
        if self.flaw == "its state has a dict":
            return State(s, {})
        if self.flaw == "it keeps memory alive":
            buffer = s.new_zeros(10, *s.shape)
            buffer[0] = s
            s = buffer[0]
            setattr(s, BUFFER, buffer)
        return State(s)

    def state_size(self, seq_len: int) -> StateSize:
        if self.flaw == "its size is a bare number":
            return self.d_model  # pyright: ignore
        parts = {"it counts too little": 0, "it keeps what it never reads": 2}.get(self.flaw, 1)
        return StateSize(paper=None, resident=parts * self.d_model, touched=self.d_model)

    def read_until(self, seq_len: int) -> Tensor:
        if self.flaw == "it denies what it sees":
            return torch.arange(seq_len) + 3
        return super().read_until(seq_len)

    def visible(self, wanted: Tensor) -> Tensor:
        if self.flaw == "it sees nothing of a long sequence" and wanted.shape[-1] > 1000:
            return torch.zeros_like(wanted)
        return super().visible(wanted)
