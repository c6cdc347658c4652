"""Make random numbers without a generator: number `slot` of example `i` is a hash of (stream key, i, slot).

Any example can be drawn alone, in any batch, on any device, with the same bits.  The hash is the
finaliser of splitmix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"; the
constants are Stafford's "mix 13") over a Weyl sequence.  torch has no uint64 arithmetic: int64 products and
sums wrap as they should, and a logical right shift is an arithmetic one followed by a mask.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

PHI = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
MASK = 2**64 - 1
SLOT_BITS = 24  # slots of one example; the other 40 bits of the counter are the example


def stream(*path: int) -> int:
    """Return the 64-bit key of the stream that `path` (seed, split, segment, purpose, ...) names."""
    key = 0
    for step in path:
        key = _mix_int(((key ^ step) + PHI) & MASK)
    return key


def bits(key: int, examples: Int[Tensor, " B"], slots: int) -> Int[Tensor, "B slots"]:
    """Return 64 random bits, as int64, for each of the first `slots` slots of each example.

    examples: 0 <= i < 2**40; slots <= 2**24.  Within a stream the map to bits is one to one.
    """
    row = ((examples << SLOT_BITS) * _signed(PHI) + _signed(key))[:, None]
    column = torch.arange(slots, device=examples.device) * _signed(PHI)
    return _mix_(row + column)


def below(random: Int[Tensor, "*n"], count: int | Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Return integers uniform in 0..count-1 (count <= 2**22), from 41 bits: bias below count * 2**-41."""
    return _shift(random, 23).mul_(count).bitwise_right_shift_(41)


def index(key: int, examples: Int[Tensor, " B"], count: int | Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """Return one integer an example, uniform in 0..count-1, for counts up to 2**40, from 44 bits."""
    high, low = below(bits(key, examples, 2), 2**22).unbind(1)
    return ((high * 2.0**-22 + low * 2.0**-44) * count).long()


def uniform(random: Int[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return float64 strictly between 0 and 1: middles of 2**52 equal cells (2**53 could round to 1)."""
    return _shift(random, 12).double().add_(0.5).mul_(2.0**-52)


def _mix_(x: Tensor) -> Tensor:
    x ^= _shift(x, 30)
    x *= _signed(MIX_1)
    x ^= _shift(x, 27)
    x *= _signed(MIX_2)
    x ^= _shift(x, 31)
    return x


def _mix_int(x: int) -> int:
    x = ((x ^ (x >> 30)) * MIX_1) & MASK
    x = ((x ^ (x >> 27)) * MIX_2) & MASK
    return x ^ (x >> 31)


def _shift(x: Tensor, by: int) -> Tensor:
    return (x >> by).bitwise_and_((1 << (64 - by)) - 1)


def _signed(x: int) -> int:
    return x - 2**64 if x >= 2**63 else x
