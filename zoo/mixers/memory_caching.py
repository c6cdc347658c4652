"""Memory caching starts linear attention afresh in every segment, and keeps each segment's memory.

Behrouz et al. 2026, "Memory Caching: RNNs with Growing Memory" (arXiv 2602.24281), read in a transcription.

B batch, T time, D model width, H heads, C channels per head (H C == D), N segments that ended.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import HeadsOutput, unit
from zoo.mixers.largest import largest
from zoo.mixers.state import StateSize


class State(NamedTuple):
    memory: Float[Tensor, "B N H C C"]  # of segments, the open one the last where there is one
    inputs: Float[Tensor, "B N D"] | None  # the sum of each segment's inputs
    offset: int


class MemoryCaching(Mixer[State]):
    """Read a linear attention memory of each segment so far, and sum by weights that the token sets:
    y_t = sum_i g_ti M_i^T q_t, M_i = sum of k v^T over segment i up to t,  g_t = softmax_i (x_t W) mean_i.

    mean_i is the mean input of segment i; in the open segment, that of the tokens so far (the source does not
    say, and the whole segment would include the future).  q and k have norm 1; each head's output passes an
    RMSNorm and a gate.
    segment_len: tokens of a segment.  gated: false: all segments have weight 1, the residual form.
    top_k: number of ended segments, of highest weight (of equal ones the earliest), that are read beside the
    open one; None: all.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, segment_len: int, gated: bool, top_k: int | None
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("segment_len", segment_len, 1)
        if top_k is not None:
            at_least("top_k", top_k, 1)
            at_least("gated", int(gated), 1)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.segment_len, self.gated, self.top_k = segment_len, gated, top_k
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.seek = nn.Linear(d_model, d_model, bias=False) if gated else None
        self.output = HeadsOutput(d_model, num_heads, self.head_dim, gate=True)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Read every segment by its weight; keep a memory for each, and with gates its inputs' sum."""
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = self.qkv(x).to(wide).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        memory, inputs, offset = (None, None, 0) if state is None else state
        place = torch.arange(offset, offset + x.shape[1], device=x.device)
        segments = torch.arange(self._count(offset + x.shape[1]), device=x.device)
        member = (place[:, None] // self.segment_len == segments).to(wide)  # [T N]
        with torch.autocast(x.device.type, enabled=False):
            q, k = unit(q), unit(k)
            memory = _joined(memory, torch.einsum("tn,bhtc,bhtd->bnhcd", member, k, v))
            gates = member.new_ones(x.shape[0], *member.shape)
            if self.seek is not None:
                u, wide_x = self.seek(x).to(wide), x.to(wide)
                sums = (u @ wide_x.mT).tril() @ member
                if inputs is not None:
                    sums = sums + F.pad(u @ inputs.mT, (0, len(segments) - inputs.shape[1]))
                inputs = _joined(inputs, torch.einsum("tn,btd->bnd", member, wide_x))
                gates = self._gates(sums, place, segments)
            y = ((q @ k.mT).tril() * (gates @ member.mT)[:, None]) @ v
            if state is not None:
                past = state.memory
                y = y + torch.einsum("btn,bhtc,bnhcd->bhtd", gates[..., : past.shape[1]], q, past)
        return self.output(y, x), State(memory, inputs, offset + x.shape[1])

    def _gates(
        self, sums: Float[Tensor, "B T N"], place: Int[Tensor, "T"], segments: Int[Tensor, "N"]
    ) -> Float[Tensor, "B T N"]:
        """Return the segments' weights, from each token's query times each segment's sum of inputs so far."""
        length = (place[:, None] + 1 - segments * self.segment_len).clamp(1, self.segment_len)
        logits, age = sums / length, place[:, None] // self.segment_len - segments
        visible = (age >= 0).expand_as(logits)
        if self.top_k is not None:
            ended = logits.masked_fill(age <= 0, -torch.inf)
            visible = visible & (largest(ended, self.top_k) | (age == 0))
        return logits.masked_fill(~visible, -torch.inf).softmax(-1)

    def _count(self, seq_len: int) -> int:
        return -(-seq_len // self.segment_len)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a memory for each segment, and with gates its inputs; a step reads top_k and the open one."""
        memory, count = self.num_heads * self.head_dim**2, self._count(seq_len)
        inputs = count * self.d_model if self.seek is not None else 0
        read = count if self.top_k is None else min(count, self.top_k + 1)
        return StateSize(paper=None, resident=count * memory + inputs, touched=read * memory + inputs)


def _joined(past: Tensor | None, new: Tensor) -> Tensor:
    """Return the sums of all segments, the past ones first."""
    if past is None:
        return new
    return torch.cat([past + new[:, : past.shape[1]], new[:, past.shape[1] :]], dim=1)
