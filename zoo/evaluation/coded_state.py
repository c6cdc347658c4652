"""Decode with a state that is rounded after each token, several forms side by side in one batch.

F forms, N rows of each form, T tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from zoo.common.checks import multiple
from zoo.common.counter_rng import stream
from zoo.model import ModelState, SequenceModel
from zoo.model.codecs.codec import BATCH, Codec, Form, as_rows, coded_part
from zoo.model.codecs.formats import FORMATS
from zoo.model.codecs.grids import Floating
from zoo.model.written_once import random_tokens, tensors, written_once

INTEGER_BITS = 32  # as docs/bounds.md counts them


class Remembered(NamedTuple):
    """What the next rounding must know of the last one, by the name of a tensor and form by form.

    coded: the rounded tensors; residuals: the rounding errors, kept for error feedback.
    """

    coded: Mapping[str, tuple[Tensor | None, ...]]
    residuals: Mapping[str, tuple[Tensor | None, ...]]


class CodedState(NamedTuple):
    """A model's state of F N rows, and what the next rounding must know."""

    state: ModelState
    remembered: Remembered


@dataclass(frozen=True)
class StateCoder:
    """A coder that rounds the state of `len(forms)` equal parts of a batch, each part to its form.

    entries: for each tensor that is written once, the axis of its entries, which gets at most one new entry
    at the end with each token.  Of these tensors only new entries are rounded, each by itself.  Other
    tensors, the sums, are rounded as a whole if they have changed.
    """

    forms: tuple[Form, ...]
    entries: Mapping[str, int]
    seed: int
    codecs: tuple[Codec, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.forms[0].format != "fp32" and any(form.predicts for form in self.forms):
            raise ValueError("noise and threshold keep no state: ask evaluation=state_bits for them.")
        object.__setattr__(self, "codecs", tuple(map(Codec, self.forms)))

    @torch.no_grad()
    def extend(
        self, model: SequenceModel, inputs: Int[Tensor, "B T"], before: CodedState | None
    ) -> tuple[Float[Tensor, "B T D"], CodedState]:
        """Return what `model.extend` returns, but read token by token and round the state to the forms, which
        replace the model's own `state_codec`."""
        multiple("the rows of a batch", inputs.shape[0], "forms", len(self.forms))
        state, remembered = before or CodedState(
            ModelState((None,) * len(model.blocks), 0), Remembered({}, {})
        )
        hidden = []
        for token in inputs.split(1, dim=1):
            step, state = model.extend_unrounded(token, state)
            state, remembered = self.rounded(state, remembered)
            hidden.append(step)
        return torch.cat(hidden, dim=1), CodedState(state, remembered)

    def bits(self, state: ModelState) -> list[int]:
        """Return the bits that one row's state takes in each form: codes, scales, residuals and integers."""
        return [sum(self._bits_of(name, x, codec) for name, x in tensors(state)) for codec in self.codecs]

    def _bits_of(self, name: str, leaf: Tensor, codec: Codec) -> int:
        if not leaf.is_floating_point():
            return leaf[0].numel() * INTEGER_BITS
        if leaf.numel() == 0:
            return 0
        shape = tuple(as_rows(leaf[:1], self.entries.get(name, BATCH)).shape)
        again = codec.residual if name not in self.entries else None
        return codec.bits(shape) + (again.bits(shape) if again else 0)

    def rounded(self, state: ModelState, last: Remembered) -> tuple[ModelState, Remembered]:
        """Return the state as it is read back, rounded for the forms that are due, and what to remember."""
        paths, structure = tree_flatten_with_path(state.layers)
        due = [i for i, form in enumerate(self.forms) if state.offset % form.every == 0]
        # seeded by the place in the row, so that decoding on from the same state repeats the same draws
        device = next(leaf.device for _, leaf in paths if isinstance(leaf, Tensor))
        draws = {
            i: torch.Generator(device).manual_seed(stream(self.seed, i, state.offset) >> 1)
            for i in due
            if self.forms[i].rounding in ("stochastic", "noise")
        }
        leaves, coded, residuals = [], {}, {}
        for path, leaf in paths:
            name = keystr(path)
            if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel():
                if name in self.entries:
                    leaf = self._entries_rounded(leaf, self.entries[name], due, draws)
                else:
                    none = (None,) * len(self.forms)
                    olds = list(last.coded.get(name, none)), list(last.residuals.get(name, none))
                    leaf = self._sum_rounded(leaf, *olds, due, draws)
                    coded[name], residuals[name] = map(tuple, olds)
            leaves.append(leaf)
        return ModelState(tree_unflatten(leaves, structure), state.offset), Remembered(coded, residuals)

    def _entries_rounded(
        self, leaf: Tensor, axis: int, due: Sequence[int], draws: Mapping[int, torch.Generator]
    ) -> Tensor:
        """Round the new entries in place."""
        changed = [i for i in due if not self._is_exact(i, leaf)]
        if any(self.forms[i].every > 1 for i in changed):
            leaf = leaf.clone()  # an earlier state may share the entries before the last
        for i in changed:
            new = self.forms[i].every
            part = self._part(leaf, i, axis, new)
            exact = self._part(leaf, 0, axis, new)
            place = part if axis == BATCH else part.movedim(axis, 1)
            place.copy_(coded_part(self.codecs[i], part, axis, draws.get(i), (None, exact, None)))
        return leaf

    def _part(self, leaf: Tensor, i: int, axis: int, new: int) -> Tensor:
        """Return a view of the new entries of a form's rows."""
        rows = leaf.shape[0] // len(self.forms)
        part = leaf.narrow(0, i * rows, rows)
        new = min(part.shape[axis], new)
        return part if axis == BATCH else part.narrow(axis, part.shape[axis] - new, new)

    def _sum_rounded(
        self,
        leaf: Tensor,
        olds: list[Tensor | None],
        residuals: list[Tensor | None],
        due: Sequence[int],
        draws: Mapping[int, torch.Generator],
    ) -> Tensor:
        """Round the parts that changed since their last rounding, and update `olds` and `residuals`."""
        parts = list(leaf.chunk(len(self.forms)))
        for i in due:
            old, residual, exact = olds[i], residuals[i], parts[i]
            if self._is_exact(i, leaf) or (old is not None and torch.equal(old, exact)):
                continue
            if residual is not None and residual.shape == exact.shape:
                exact = exact + residual
            codec = self.codecs[i]
            parts[i] = coded = coded_part(codec, exact, BATCH, draws.get(i), (old, parts[0], olds[0]))
            olds[i] = coded
            if codec.residual is not None:
                residuals[i] = coded_part(codec.residual, exact - coded, BATCH, None, (None, None, None))
        if self._is_exact(0, leaf):
            olds[0] = parts[0]
        return torch.cat(parts)

    def _is_exact(self, i: int, leaf: Tensor) -> bool:
        return self.forms[i].format == "fp32" and leaf.dtype == torch.float32


def coder_for(
    model: SequenceModel, forms: Sequence[Form], seed: int, inputs: Int[Tensor, "B T"] | None = None
) -> StateCoder:
    """Return the coder that decodes with these forms side by side.

    inputs: rows by which to tell caches from sums; None: random tokens.
    ValueError, one line: the model has no exact decoding or has a decoder of its own, or the device has no
    such format.
    """
    device = model.embedding.device
    if not model.exact_decode:
        raise ValueError("the model has no exact decoding, so that no state stands for what it has read.")
    if model.decoder is not None:
        raise ValueError("the answers pass through a decoder, which reads no state: no form can be tried.")
    check_device(forms, device)
    if inputs is None:
        inputs = random_tokens(model)
    return StateCoder(tuple(forms), written_once(model.extend_unrounded, inputs.to(device)), seed)


def check_device(forms: Sequence[Form], device: torch.device) -> None:
    """Raise a ValueError of one line for a format whose numbers the device lacks."""
    for name in {name for form in forms for name in (form.format, form.residual)}:
        grid = FORMATS[name].grid
        if isinstance(grid, Floating) and grid.dtype is not None:
            try:
                torch.zeros(1, device=device).to(grid.dtype).float()
            except (RuntimeError, TypeError) as error:
                raise ValueError(f"{device} has no {name} ({str(error).splitlines()[0]}).") from None
