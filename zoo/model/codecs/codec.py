"""Round a tensor of a state to a number format, and count the bits that this takes.

R rows; a row is all that one sequence keeps of a sum, or one entry (token) of a cache.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.model.codecs.formats import BY_MEAN, E4M3, FORMATS, PLAIN, POWER_OF_TWO, TWO_LEVELS

BATCH = 0  # as an axis of entries: the whole tensor is one entry
NO_SCALE = "none"
SCALES = ("tensor", "head", "key", "value", "block", NO_SCALE)
ROUNDINGS = ("nearest", "stochastic", "feedback")
PREDICTIONS = ("noise", "threshold")
KINDS = {int: "a whole number", bool: "true or false", str: "a word"}
SCALE_BITS, POWER_BITS, BLOCK_BITS = 16, 8, 8  # bfloat16, e8m0, e4m3
Rows = Float[Tensor, "R *dims"]


@dataclass(frozen=True)
class Form:
    """Settings by which a state is rounded and kept.

    format: a name of FORMATS.
    scale: which scalars share one scale.  tensor: all of a row; head: each index of a row's first axis; key,
    value: each key channel or each value channel of a matrix, in other tensors the last axis; block: `block`
    scalars of the last axis, which is one block if it is shorter.  Plain formats have no scale; microscaling
    formats have blocks of their own, whatever is given.
    zero_point: whole-number codes cover the range of the numbers and zero, not one symmetric around zero.
    rounding: nearest (ties to even); stochastic; feedback: nearest, of the number plus its last rounding
    error, which is kept in the format `residual`.  Two more round nothing and are no way to keep a state:
    from the exact state and its steps D they predict the effect of rounding.  noise predicts stochastic
    rounding, by variance f (1 - f) D^2, with f the fractional part of a token's change in steps; threshold
    predicts nearest: an entry that moves by less than D / 2 stays what it was.
    rotate: turn the key axis by a Hadamard matrix before rounding, and back after it.
    every: tokens from one rounding of the state to the next.
    """

    format: str
    scale: str = "key"
    rounding: str = "nearest"
    zero_point: bool = False
    residual: str = "bf16"
    rotate: bool = False
    every: int = 1
    block: int = 32

    def __post_init__(self) -> None:
        one_of("format", self.format, tuple(FORMATS))
        one_of("scale", self.scale, SCALES)
        one_of("rounding", self.rounding, (*ROUNDINGS, *PREDICTIONS))
        one_of("residual", self.residual, tuple(FORMATS))
        for field in fields(self)[1:]:
            if type(value := getattr(self, field.name)) is not type(field.default):
                raise ValueError(f"{field.name} (={value!r}) must be {KINDS[type(field.default)]}.")
        at_least("every", self.every, 1)
        at_least("block", self.block, 1)
        if self.zero_point and not FORMATS[self.format].whole:
            raise ValueError(f"zero_point (=True) needs a format of whole numbers, not {self.format}.")
        exotic = self.zero_point or self.rotate or self.every > 1 or not FORMATS[self.format].whole
        if self.predicts and exotic:
            raise ValueError(f"rounding (={self.rounding!r}) needs whole numbers, every token, as they are.")
        if self.scale == NO_SCALE and FORMATS[self.format].scaling != PLAIN:
            raise ValueError(f"scale (='none') is for plain formats: {self.format} needs another.")

    @property
    def predicts(self) -> bool:
        """Return whether the effect of rounding is predicted, and nothing is rounded."""
        return self.rounding in PREDICTIONS

    @property
    def simplest(self) -> "Form":
        """Return the form without settings that its format ignores, so that equivalent forms are equal."""
        known = FORMATS[self.format]
        if self.format == "fp32":
            return Form(self.format, NO_SCALE)
        scale = NO_SCALE if known.scaling == PLAIN else "block" if known.block else self.scale
        residual = self.residual if self.rounding == "feedback" else "bf16"
        block = known.block or (self.block if scale == "block" else 32)
        return replace(self, scale=scale, residual=residual, block=block)


@dataclass(frozen=True)
class Codec:
    """Round tensors to a form.  A tensor that it has rounded stays the same when it is rounded again."""

    form: Form

    @cached_property
    def _format(self):
        return FORMATS[self.form.format]

    @cached_property
    def residual(self) -> "Codec | None":
        """Return the codec of what error feedback keeps, None without feedback."""
        if self.form.rounding != "feedback":
            return None
        scale = "key" if self.form.scale == NO_SCALE else self.form.scale
        return Codec(Form(self.form.residual, scale, block=self.form.block))

    def code(self, x: Rows, generator: torch.Generator | None = None) -> Rows:
        """Return each row as it is read back after it was kept in the form.

        generator: for stochastic rounding.
        ValueError, one line: a block does not divide the last axis, or the device has no such numbers.
        """
        wide = x.float()
        turned = rotated(wide, self._key_axis(x)) if self.form.rotate else wide
        groups, whole = self._grouped(turned)
        coded = whole(self._coded(groups, generator))
        return (rotated(coded, self._key_axis(x)) if self.form.rotate else coded).to(x.dtype)

    def predicted(
        self, x: Rows, before: Rows, exact: Rows, exact_before: Rows, generator: torch.Generator | None
    ) -> Rows:
        """Return the predicted rows from x, which were `before`; exact: the same rows in a state that was
        never rounded.  The form must be one that predicts."""
        groups, whole = self._grouped(exact.float())
        step = whole(self._scale(groups, groups.abs().amax(-1, keepdim=True)).expand_as(groups))
        if self.form.rounding == "threshold":
            return torch.where((x - before).abs() < step / 2, before, x)
        moves = ((exact - exact_before) / torch.where(step > 0, step, 1.0)).abs()
        share = moves - moves.floor()
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return (x + noise * step * (share * (1 - share)).sqrt()).to(x.dtype)

    def bits(self, shape: tuple[int, ...]) -> int:
        """Return the bits of the codes, scales and zero points of rows of this shape, without a residual."""
        groups, _ = self._grouped(torch.empty(shape, device="meta"))
        each = {PLAIN: 0, POWER_OF_TWO: POWER_BITS, TWO_LEVELS: BLOCK_BITS}.get(
            self._format.scaling, SCALE_BITS
        )
        each += self._format.bits if self.form.zero_point else 0
        above = SCALE_BITS * shape[0] if self._format.scaling == TWO_LEVELS else 0
        return groups.numel() * self._format.bits + groups.shape[:-1].numel() * each + above

    def _key_axis(self, x: Rows) -> int:
        return 2 if x.ndim == 4 else x.ndim - 1

    def _grouped(self, x: Rows) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return a view whose last axis shares a scale, and what brings it back to the shape of x."""
        scale = "block" if self._format.block else self.form.scale
        back = x.shape
        if scale == "value" and x.ndim == 4:
            return x.mT, lambda groups: groups.mT
        if scale == "block":
            block = self._block(x.shape[-1])
            return x.unflatten(-1, (-1, block)), lambda groups: groups.reshape(back)
        if scale in ("tensor", "head"):
            first = 2 if scale == "head" and x.ndim > 2 else 1
            return x.flatten(first), lambda groups: groups.reshape(back)
        return x, lambda groups: groups

    def _block(self, length: int) -> int:
        block = min(self._format.block or self.form.block, length)
        if length % block:
            raise ValueError(
                f"a block of {self.form.format} (={block}) must divide the state's last axis (={length})."
            )
        return block

    def _coded(self, groups: Tensor, generator: torch.Generator | None) -> Tensor:
        form, grid = self._format, self._format.grid
        noise = None
        if self.form.rounding == "stochastic":
            noise = torch.rand(groups.shape, generator=generator, device=groups.device)
        if form.scaling == PLAIN:
            return grid.round(groups, noise)
        if self.form.zero_point:
            return self._shifted(groups, noise)
        most = groups.abs().amax(-1, keepdim=True)
        scale = self._scale(groups, most)
        codes = grid.round(groups / torch.where(scale > 0, scale, 1.0), noise)
        if form.scaling == TWO_LEVELS or (noise is not None and form.scaling != POWER_OF_TWO):
            codes = self._pinned(groups, most, codes)
        return codes * scale

    def _pinned(self, groups: Tensor, most: Tensor, codes: Tensor) -> Tensor:
        """Give the largest of a group the largest code, so that rounding again finds the same scale."""
        if self._format.scaling == BY_MEAN:
            return codes
        return torch.where(groups.abs() == most, groups.sign() * self._format.grid.most, codes)

    def _scale(self, groups: Tensor, most: Tensor) -> Tensor:
        top = self._format.grid.most
        if self._format.scaling == BY_MEAN:
            return _as_bf16(groups.abs().mean(-1, keepdim=True))
        if self._format.scaling == POWER_OF_TWO:
            room = torch.frexp(torch.tensor(top)).exponent
            return torch.exp2((torch.frexp(most).exponent - room).clamp(-127, 127).float())
        if self._format.scaling == TWO_LEVELS:
            above = _as_bf16(most.flatten(1).amax(1) / (top * E4M3.most)).view(-1, *[1] * (most.ndim - 1))
            return E4M3.round(most / top / torch.where(above > 0, above, 1.0), None) * above
        return _as_bf16(most / top)

    def _shifted(self, groups: Tensor, noise: Tensor | None) -> Tensor:
        """Round to 2**bits steps between the least and the largest of each group, zero among them."""
        last = 2**self._format.bits - 1
        low = groups.amin(-1, keepdim=True).clamp(max=0)
        high = groups.amax(-1, keepdim=True).clamp(min=0)
        step = _as_bf16((high - low) / last)
        safe = torch.where(step > 0, step, 1.0)
        zero = (-low / safe).round().clamp(0, last)
        steps = groups / safe
        codes = steps.round() if noise is None else steps.floor() + (noise < steps - steps.floor())
        codes = (codes + zero).clamp(0, last)
        codes = torch.where(groups == low, 0.0, torch.where(groups == high, float(last), codes))
        return (codes - zero) * step


def _as_bf16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def coded_part(
    codec: Codec,
    part: Tensor,
    axis: int,
    draw: torch.Generator | None,
    history: tuple[Tensor | None, Tensor | None, Tensor | None],
) -> Tensor:
    """Return the part as it is read back, with the axis of its entries right after the batch.

    history: the part before, and the part in the exact state now and before; None counts as zeros.
    """
    rows = as_rows(part, axis)
    if codec.form.predicts:
        before, exact, exact_before = (
            torch.zeros_like(rows) if each is None or each.shape != part.shape else as_rows(each, axis)
            for each in history
        )
        coded = codec.predicted(rows, before, exact, exact_before, draw)
    else:
        coded = codec.code(rows, draw)
    return coded.reshape((part if axis == BATCH else part.movedim(axis, 1)).shape)


def as_rows(part: Tensor, axis: int) -> Tensor:
    """Return rows that are rounded one by one: one per sequence, or one per entry of each sequence."""
    rows = part if axis == BATCH else part.movedim(axis, 1).flatten(0, 1)
    return rows if rows.ndim > 1 else rows[:, None]


@cache
def hadamard(size: int) -> Float[Tensor, "size size"]:
    """Return a symmetric orthonormal matrix, which is its own inverse: Sylvester's where size is a power of
    two, else blocks of them, the largest first (21 = 16 + 4 + 1)."""
    from scipy.linalg import hadamard as sylvester  # time, which few models need

    powers = [2**i for i in reversed(range(size.bit_length())) if size & 2**i]
    return torch.block_diag(*(torch.tensor(sylvester(n)).float() * n**-0.5 for n in powers))


def rotated(x: Float[Tensor, "*any"], axis: int) -> Float[Tensor, "*any"]:
    """Return `x` with one axis rotated; twice gives `x` again, up to rounding."""
    matrix = hadamard(x.shape[axis]).to(x.device)
    with torch.autocast(x.device.type, enabled=False):
        return (x.movedim(axis, -1) @ matrix).movedim(-1, axis)
