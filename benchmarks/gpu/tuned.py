"""What is tuned: ops at the sizes of the targets and of the sweeps, the most valuable first."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.gpu.choices import Knob
from zoo.bench import op_subjects
from zoo.bench.op_subject import Subject

KERNELS = "zoo.kernels"
TABLES = {  # op -> its table
    "taylor_scan": f"{KERNELS}.taylor_scan.triton_launches:blocks",
    "taylor_attention": f"{KERNELS}.taylor_attention.triton:blocks",
    "window_decode": f"{KERNELS}.window_decode.triton:blocks",
    "se_attention": f"{KERNELS}.se_attention.triton_launches:blocks_of",
    "block_choice": f"{KERNELS}.block_choice.triton:tile_of",
    "block_summaries": f"{KERNELS}.block_summaries.triton:cut",
    "linear_cross_entropy": f"{KERNELS}.linear_cross_entropy.triton:blocks",
    "selective_scan": f"{KERNELS}.selective_scan.triton:cut",
    "linear_attention": f"{KERNELS}.linear_attention.triton_launches:blocks",
    "gated_linear_attention": f"{KERNELS}.linear_attention.triton_launches:blocks",
    "delta_rule": f"{KERNELS}.delta_rule.triton:blocks",
}
BY_CHANNEL = f"{KERNELS}.gated_linear_attention.triton_channels_launches:blocks"  # a decay a channel
CONSTANTS: dict[str, dict[str, list[Any]]] = {  # table -> what holds for several kernels -> other values
    TABLES["taylor_scan"]: {
        f"{KERNELS}.taylor_scan.triton_launches:CHUNK": [128, 512],
        f"{KERNELS}.taylor_scan.triton_launches:PROGRAMS": [528, 1056],
    },
    TABLES["linear_cross_entropy"]: {f"{KERNELS}.linear_cross_entropy.triton:PROGRAMS": [132, 528]},
    TABLES["selective_scan"]: {
        f"{KERNELS}.selective_scan.triton:BLOCK": [
            {"forward": forward, "backward": backward}
            for forward, backward in ((4, 16), (16, 16), (8, 8), (8, 32))
        ]
    },
    TABLES["linear_attention"]: {f"{KERNELS}.linear_attention.triton_launches:CHUNK": [32, 128]},
}


@dataclass(frozen=True)
class Tuned:
    """ragged: the same kernels at a length that no block divides (a multiple of 16, as Triton compiles for
    those apart).  backward: what is cut for the backward pass alone; else what the forward pass uses.
    other_table: in place of the op's first.
    """

    subject: Subject
    ragged: Subject
    backward: bool
    other_table: str | None = None

    @property
    def op(self) -> str:
        return self.subject.op

    @property
    def table(self) -> str:
        return self.other_table or TABLES[self.op]

    @property
    def constants(self) -> dict[Knob, list[Any]]:
        if not self.subject.trained:  # one token alone
            return {}
        return {Knob(place): values for place, values in CONSTANTS.get(self.table, {}).items()}

    @property
    def way(self) -> str:
        return "forward and backward" if self.backward else "forward"


def tuned(small: bool) -> list[Tuned]:
    """small: one, of one quick kernel."""
    make = op_subjects
    if small:
        return [Tuned(make.taylor_decode(8, 16, 16, 64), make.taylor_decode(3, 16, 16, 64), False)]
    prefill = make.taylor_scan(4, 16, 8192, 16, 64), make.taylor_scan(1, 16, 784, 16, 64)
    decode = make.taylor_decode(128, 16, 16, 64), make.taylor_decode(3, 16, 16, 64)
    window = make.window_decode(128, 16, 64, window=128), make.window_decode(3, 16, 64, window=100)
    trained = [
        (make.taylor_attention(256, 1, length, 16, width), make.taylor_attention(3, 1, 208, 16, width))
        for length, width in ((256, 64), (64, 64), (256, 32), (128, 16))
    ]
    choosing = partial(make.se_attention, chunk_size=512, block_size=32, top_k=8)
    spans = choosing(1, 16, 65536, 64), choosing(1, 16, 1552, 64)
    heads = [
        (make.linear_cross_entropy(16384, width, 8192), make.linear_cross_entropy(1040, width, 8144))
        for width in (128, 64)
    ]
    first = [Tuned(*prefill, False), Tuned(*decode, False), Tuned(*window, False), *_both_ways(*trained[0])]
    first += [Tuned(*spans, False), *_choosing()]
    later = [one for pair in (*heads, *trained[1:]) for one in _both_ways(*pair)]
    return [*first, *later, *_scans(), Tuned(*prefill, True), Tuned(*spans, True)]


def _both_ways(subject: Subject, ragged: Subject, other_table: str | None = None) -> list[Tuned]:
    return [Tuned(subject, ragged, backward, other_table) for backward in (False, True)]


def _choosing() -> list[Tuned]:
    """What SE-Attn does before it attends: summaries, and a choice by each chunk or by each token."""
    summed = partial(op_subjects.block_summaries, block_size=32)
    by_chunk = partial(op_subjects.block_choice, chunk_size=512, block_size=32, top_k=8)
    by_token = partial(by_chunk, per_token=True)
    return [
        Tuned(make(1, 16, 65536, 64), make(1, 16, 1552, 64), False) for make in (summed, by_chunk, by_token)
    ]


def _scans() -> list[Tuned]:
    """As the sweeps train them."""
    make, gated = op_subjects, op_subjects.gated_linear_attention
    by_head, by_channel = (partial(gated, per_channel=per_channel) for per_channel in (False, True))
    return [
        *_both_ways(make.selective_scan(64, 256, 128, 16), make.selective_scan(3, 208, 128, 16)),
        *_both_ways(make.delta_rule(64, 2, 256, 64, 64), make.delta_rule(3, 2, 208, 64, 64)),
        *_both_ways(by_head(64, 2, 256, 64, 64), by_head(3, 2, 208, 64, 64)),
        *_both_ways(by_channel(64, 2, 256, 64, 64), by_channel(3, 2, 208, 64, 64), BY_CHANNEL),
        *_both_ways(make.linear_attention(64, 2, 256, 64, 64), make.linear_attention(3, 2, 208, 64, 64)),
    ]
