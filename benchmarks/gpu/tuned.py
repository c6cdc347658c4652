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
    "se_attention": f"{KERNELS}.se_attention.triton_launches:blocks_of",
    "linear_cross_entropy": f"{KERNELS}.linear_cross_entropy.triton:blocks",
    "selective_scan": f"{KERNELS}.selective_scan.triton:cut",
    "gated_linear_attention": f"{KERNELS}.linear_attention.triton_launches:blocks",
    "delta_rule": f"{KERNELS}.delta_rule.triton:blocks",
}
CONSTANTS: dict[str, dict[str, list[Any]]] = {  # op -> what holds for several kernels -> other values
    "taylor_scan": {
        f"{KERNELS}.taylor_scan.triton_launches:CHUNK": [128, 512],
        f"{KERNELS}.taylor_scan.triton_launches:PROGRAMS": [528, 1056],
    },
    "linear_cross_entropy": {f"{KERNELS}.linear_cross_entropy.triton:PROGRAMS": [132, 528]},
    "selective_scan": {
        f"{KERNELS}.selective_scan.triton:BLOCK": [
            {"forward": forward, "backward": backward}
            for forward, backward in ((4, 16), (16, 16), (8, 8), (8, 32))
        ]
    },
    "gated_linear_attention": {f"{KERNELS}.linear_attention.triton_launches:CHUNK": [32, 128]},
}


@dataclass(frozen=True)
class Tuned:
    """ragged: the same kernels at a length that no block divides (a multiple of 16, as Triton compiles for
    those apart).  backward: what is cut for the backward pass alone; else what the forward pass uses.
    """

    subject: Subject
    ragged: Subject
    backward: bool

    @property
    def op(self) -> str:
        return self.subject.op

    @property
    def table(self) -> str:
        return TABLES[self.op]

    @property
    def constants(self) -> dict[Knob, list[Any]]:
        if not self.subject.trained:  # one token alone
            return {}
        return {Knob(place): values for place, values in CONSTANTS.get(self.op, {}).items()}

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
    scans = [
        (make.selective_scan(64, 256, 128, 16), make.selective_scan(3, 208, 128, 16)),
        (make.delta_rule(64, 2, 256, 64, 64), make.delta_rule(3, 2, 208, 64, 64)),
        (_gated(64, 256), _gated(3, 208)),
    ]
    first = [(prefill, False), (decode, False), (trained[0], False), (trained[0], True), (spans, False)]
    later = [(pair, backward) for pair in (*heads, *trained[1:], *scans) for backward in (False, True)]
    return [Tuned(*pair, backward) for pair, backward in [*first, *later, (prefill, True), (spans, True)]]


def _gated(B: int, T: int) -> Subject:
    return op_subjects.gated_linear_attention(B, 2, T, 64, 64, per_channel=False)
