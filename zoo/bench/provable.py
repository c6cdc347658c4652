"""Every kernel proved at the sizes of the sweeps: `python -m zoo.kernels --prove`."""

from collections.abc import Iterator, Sequence
from importlib import import_module

import torch

from zoo.bench import op_subjects as at
from zoo.bench.op_subject import Subject
from zoo.bench.ops import drawn
from zoo.bench.span_subjects import block_choice, block_summaries, se_attention
from zoo.kernels.common.verdicts import Verdict, verdicts_here

DTYPES = (torch.float32, torch.bfloat16)


def provable(small: bool = False) -> list[Subject]:
    """Return subjects at the sizes of a sweep's batch at d_model 128; small: to see that each runs."""
    B, T, width = (2, 16, 16) if small else (64, 256, 128)
    head = min(64, width)
    return [
        at.taylor_scan(B, 2, T, 16, head),
        at.taylor_decode(B, 2, 16, head),
        at.taylor_attention(B, 2, T, 16, head),
        at.attention(B, 2, T, head),
        at.attention(B, 2, T, head, window=T // 4),
        at.window_decode(B, 2, head, window=T // 4),
        at.linear_attention(B, 2, T, head, head),
        at.gated_linear_attention(B, 2, T, head, head, per_channel=False),
        at.gated_linear_attention(B, 2, T, head, head, per_channel=True),
        at.delta_rule(B, 2, T, head, head),
        at.selective_scan(B, T, 2 * width, 16),
        at.diagonal_scan(B, T, width),
        at.short_conv(B, T, width, 4),
        at.linear_cross_entropy(B * T // 4, width, 64 * width),
        se_attention(B, 2, T, head, chunk_size=T // 4, block_size=T // 16, top_k=2),
        block_summaries(B, 2, T, head, block_size=T // 16),
        block_choice(B, 2, T, head, chunk_size=T // 4, block_size=T // 16, top_k=2),
    ]


def prove_all(
    device: str = "cuda", dtypes: Sequence[torch.dtype] = DTYPES, small: bool = False
) -> Iterator[Verdict]:
    """Call each op as a mixer calls it, under auto, and yield each verdict once it is there."""
    known = set(verdicts_here())
    for subject in provable(small):
        call = getattr(import_module(f"zoo.kernels.{subject.op}"), subject.op)
        for dtype in dtypes:
            with torch.set_grad_enabled(subject.trained):
                call(*drawn(subject, device, subject.trained, dtype))
            new = [one for one in verdicts_here() if one not in known]
            known.update(new)
            yield from new
