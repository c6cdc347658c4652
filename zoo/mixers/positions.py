"""Encode positions by rotation or linear biases.  Both are relative, so no state keeps them.

B batch, H heads, T time, C channels per head.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least, one_of


def rotary_channels(head_dim: int, fraction: float = 1.0) -> int:
    """Return the number of a head's channels that turn: `fraction` of them, even and positive."""
    channels = round(fraction * head_dim)
    if not 0 < fraction <= 1 or channels % 2 or channels < 2:
        raise ValueError(
            f"rope_fraction * head_dim (={fraction} * {head_dim}) must be an even number of channels "
            f"between 2 and head_dim; choose another rope_fraction or num_heads."
        )
    return channels


def rotate(
    x: Float[Tensor, "B H T C"],
    offset: int = 0,
    base: float = 10000.0,
    fraction: float = 1.0,
    scale: float = 1.0,
) -> Float[Tensor, "B H T C"]:
    """Turn x by RoPE (Su et al. 2021, arXiv 2104.09864), token i standing at `(offset + i) / scale`.

    Channel i is paired with channel i + R/2 of the first R = fraction * C channels (half-split pairing),
    and the pair turns by position * base**(-2i/R); the other channels stay.  A query and a key that were
    turned so see only the difference of their positions.
    """
    channels = rotary_channels(x.shape[-1], fraction)
    cos, sin = _turns(x, channels, offset, base, scale)
    turning, still = x[..., :channels], x[..., channels:]
    first, second = turning.chunk(2, dim=-1)
    turned = torch.addcmul(turning * cos, torch.cat([-second, first], dim=-1), sin).to(x.dtype)
    return torch.cat([turned, still], dim=-1) if still.shape[-1] else turned


def _turns(x: Tensor, channels: int, offset: int, base: float, scale: float) -> tuple[Tensor, Tensor]:
    precise = torch.promote_types(x.dtype, torch.float32)  # bfloat16 cannot count beyond 256
    rates = base ** (-torch.arange(0, channels, 2, device=x.device, dtype=precise) / channels)
    position = torch.arange(offset, offset + x.shape[-2], device=x.device, dtype=precise) / scale
    angles = (position[:, None] * rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def alibi_slopes(num_heads: int) -> Float[Tensor, "H"]:
    """Return the slopes of ALiBi (Press et al. 2021, arXiv 2108.12409): -slope[h] * (i - j) joins each logit.

    slope[h] = 2**(-8(h+1)/H) for a power of two H.  Otherwise the slopes of the next lower power, then
    every other slope of the next higher power, as in the authors' code.
    """
    at_least("num_heads", num_heads, 1)
    lower = 2 ** (num_heads.bit_length() - 1)
    slopes = _geometric(lower) + _geometric(2 * lower)[::2]
    return torch.tensor(slopes[:num_heads])


def _geometric(power_of_two: int) -> list[float]:
    return [2.0 ** (-8 * (h + 1) / power_of_two) for h in range(power_of_two)]


def check_position(
    position: str, head_dim: int, rope_fraction: float, rope_base: float, alibi: bool = False
) -> None:
    """Raise ValueError for what `rotate` cannot do, already when the mixer is built."""
    one_of("position", position, ("none", "rope", "alibi") if alibi else ("none", "rope"))
    if position == "rope":
        rotary_channels(head_dim, rope_fraction)
        at_least("rope_base", rope_base, 1.0)
