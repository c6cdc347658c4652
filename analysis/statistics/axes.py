"""List the quantities that accuracy can be drawn against, each with its unit and its better direction."""

from dataclasses import dataclass

import pandas as pd

from zoo.mixers.state import BYTES_PER_SCALAR

FP32, BF16 = BYTES_PER_SCALAR["float32"], BYTES_PER_SCALAR["bfloat16"]
COUNT, BYTES, MEASURED = "count", "bytes", "measured"  # how ticks are written


@dataclass(frozen=True)
class Axis:
    """A quantity on the x axis.  column: of `analysis.statistics.points.points`.

    words, unit: of the label; {tokens} is the longest sequence.  more: more is better, which mirrors the
    frontier.  bits: bits per scalar for which `analysis.statistics.bounds` gives the bound on recall, first
    as the state is kept, then for comparison; empty where the quantity is no memory, or only a part of it.
    per_scalar: units of this axis in one scalar.
    """

    column: str
    words: str
    unit: str
    more: bool = False
    bits: tuple[int, ...] = ()
    per_scalar: int = 1
    ticks: str = COUNT

    def cost(self, points: pd.DataFrame) -> pd.Series:
        """Return the cost that the frontier minimises: the column, negated where more is better."""
        sign = -1.0 if self.more else 1.0
        return pd.Series(sign * points[self.column].to_numpy(float), index=points.index)

    def label(self, tokens: str) -> str:
        return f"{self.words.format(tokens=tokens)} ({self.unit})"


SCALARS, IN_BYTES = "scalars per sequence, all layers", "bytes per sequence, all layers"
AXES = {
    "resident": Axis(
        "state_resident", "Resident state, the most in {tokens} tokens", SCALARS, bits=(32, 16, 1)
    ),
    "paper": Axis("state_paper", "State as published figures count it, in {tokens} tokens", SCALARS),
    "touched": Axis("state_touched", "State read by one decode step, the most in {tokens} tokens", SCALARS),
    "fp32": Axis(
        "bytes_fp32", "Resident state in fp32, in {tokens} tokens", IN_BYTES, bits=(32,), per_scalar=FP32,
        ticks=BYTES,
    ),
    "bf16": Axis(
        "bytes_bf16", "Resident state in bf16, in {tokens} tokens", IN_BYTES, bits=(16,), per_scalar=BF16,
        ticks=BYTES,
    ),
    "parameters": Axis("parameters", "Parameters of the model", "scalars", ticks=MEASURED),
    "throughput": Axis(
        "decode_tokens_per_second", "Decode throughput, more is better", "tokens per second, all of a batch",
        more=True, ticks=MEASURED,
    ),
    "operations": Axis(
        "operations", "Training cost of one cell", "floating-point operations", ticks=MEASURED
    ),
    "seconds": Axis("wall_seconds", "Training time of one cell", "seconds", ticks=MEASURED),
}  # fmt: skip
PER_CELL = ("decode_tokens_per_second", "operations", "wall_seconds")  # others belong to the point
