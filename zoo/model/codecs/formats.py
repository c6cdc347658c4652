"""The number formats that a state can be kept in: values, bits, and where the scale comes from."""

from dataclasses import dataclass

import torch

from zoo.model.codecs.grids import Floating, Grid, Signs, Whole

PLAIN, BY_MOST, BY_MEAN = "plain", "by_most", "by_mean"
POWER_OF_TWO, TWO_LEVELS = "power_of_two", "two_levels"


@dataclass(frozen=True)
class Format:
    """A number format.  bits: of one code.

    scaling: PLAIN has no scale; BY_MOST puts the largest of a group on the grid's largest value, BY_MEAN the
    mean of the absolute values on one, both with a scale in bfloat16; POWER_OF_TWO has the e8m0 scale of the
    OCP microscaling formats; TWO_LEVELS an e4m3 scale a block under a bfloat16 scale for all (NVFP4, which
    has float32 there).
    block: scalars that share a scale, where the format prescribes them.
    """

    bits: int
    grid: Grid
    scaling: str = BY_MOST
    block: int | None = None

    @property
    def whole(self) -> bool:
        """Return whether codes are whole numbers, which may have a zero point."""
        return isinstance(self.grid, Whole)


E4M3 = Floating(3, -6, 448.0, torch.float8_e4m3fn)
E5M2 = Floating(2, -14, 57344.0, torch.float8_e5m2)
E2M3 = Floating(3, 0, 7.5)
E2M1 = Floating(1, 0, 6.0)
FORMATS = {
    "fp32": Format(32, Floating(23, -126, torch.finfo(torch.float32).max, torch.float32), PLAIN),
    "bf16": Format(16, Floating(7, -126, torch.finfo(torch.bfloat16).max, torch.bfloat16), PLAIN),
    "fp16": Format(16, Floating(10, -14, 65504.0, torch.float16), PLAIN),
    "fp8_e4m3": Format(8, E4M3),
    "fp8_e5m2": Format(8, E5M2),
    "int8": Format(8, Whole(127)),
    "int6": Format(6, Whole(31)),
    "int4": Format(4, Whole(7)),
    "int3": Format(3, Whole(3)),
    "int2": Format(2, Whole(1)),
    "sign": Format(1, Signs(), BY_MEAN),
    "mxfp8": Format(8, E4M3, POWER_OF_TWO, 32),
    "mxfp6": Format(6, E2M3, POWER_OF_TWO, 32),
    "mxfp4": Format(4, E2M1, POWER_OF_TWO, 32),
    "nvfp4": Format(4, E2M1, TWO_LEVELS, 16),
}
