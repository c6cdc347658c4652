"""A model whose state is rounded while it reads, in training and in use.

B batch, T time, D model width.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils._pytree import KeyPath, keystr, tree_map_with_path

from zoo.blocks.base import Block
from zoo.common.checks import one_of
from zoo.model.codecs.codec import BATCH, Codec, Form, coded_part
from zoo.model.sequence_model import ModelState, SequenceModel, picked
from zoo.model.written_once import random_tokens, tensors, written_once

ROUNDINGS = ("nearest", "threshold")


class RoundedModel(SequenceModel):
    """A SequenceModel whose state is rounded after every `every` tokens, counted from a sequence's start.

    Rounding `nearest`: sums are rounded as a whole, entries of a cache once, when they are new.  `threshold`:
    nothing is rounded, but an entry of a sum that a token moves by less than half a step stays as it was;
    caches are left alone.

    A sequence is read in parts of `every` tokens, through `extend`.  Gradients pass a rounding as if nothing
    was rounded (the straight-through estimator of arXiv 1308.3432).
    ValueError, one line: another rounding; the model has no exact decoding or answers by a decoder.
    """

    def __init__(self, blocks: list[Block], *, state_codec: Form, **settings: Any) -> None:
        super().__init__(blocks, **settings)
        one_of("model.state_codec.rounding", state_codec.rounding, ROUNDINGS)
        if not self.exact_decode or self.decoder is not None:
            raise ValueError("model.state_codec needs a model that decodes exactly, and no decoder.")
        self.form = state_codec

    def forward(
        self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"] | None = None
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "B A D"]:
        hidden = self.extend(inputs)[0]
        return hidden if positions is None else picked(hidden, positions)

    def extend(
        self, inputs: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T D"], ModelState]:
        state, every, hidden = state or ModelState((None,) * len(self.blocks), 0), self.form.every, []
        first = every - state.offset % every
        for part in (inputs[:, :first], *inputs[:, first:].split(every, dim=1)):
            if part.shape[1]:
                step, after = self.extend_unrounded(part, state)
                due = after.offset % every == 0 and self.form.format != "fp32"
                state = self._rounded(after, dict(tensors(state))) if due else after
                hidden.append(step)
        return torch.cat(hidden, dim=1), state

    @cached_property
    def entries(self) -> Mapping[str, int]:
        """The state's tensors whose entries are written once, by name, each with the axis of its entries."""
        training = self.training
        self.eval()
        entries = written_once(self.extend_unrounded, random_tokens(self).to(self.embedding.device))
        self.train(training)
        return entries

    def _rounded(self, state: ModelState, before: Mapping[str, Tensor]) -> ModelState:
        def rounded(path: KeyPath, leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or not leaf.numel():
                return leaf
            name = keystr(path)
            if name not in self.entries:
                return self._coded(leaf, BATCH, before.get(name))
            return (
                self._with_new_entries(leaf, self.entries[name]) if self.form.rounding == "nearest" else leaf
            )

        return state._replace(layers=tree_map_with_path(rounded, state.layers))

    def _with_new_entries(self, leaf: Tensor, axis: int) -> Tensor:
        if axis == BATCH:
            return self._coded(leaf, axis, None)
        old = max(leaf.shape[axis] - self.form.every, 0)
        new = self._coded(leaf.narrow(axis, old, leaf.shape[axis] - old), axis, None)
        return torch.cat([leaf.narrow(axis, 0, old), new], dim=axis)

    def _coded(self, part: Tensor, axis: int, before: Tensor | None) -> Tensor:
        with torch.no_grad():
            coded = coded_part(Codec(self.form), part, axis, None, (before, part, None))
            coded = coded if axis == BATCH else coded.movedim(1, axis)
        return coded + (part - part.detach())
