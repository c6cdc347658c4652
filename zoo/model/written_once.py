"""Tell which tensors of a state are caches, whose entries are written once, and which are sums."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map_only

from zoo.model.codecs.codec import BATCH
from zoo.model.sequence_model import ModelState, SequenceModel

PROBED = 40  # tokens that tell caches from sums, where the caller has no rows of its own
Extend = Callable[[Tensor, ModelState | None], tuple[Tensor, ModelState]]  # as SequenceModel.extend


def tensors(state: ModelState) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a state with their names."""
    for path, leaf in tree_flatten_with_path(state.layers)[0]:
        if isinstance(leaf, Tensor):
            yield keystr(path), leaf


@torch.no_grad()
def written_once(extend: Extend, inputs: Int[Tensor, "B T"]) -> dict[str, int]:
    """Return the tensors of the state whose entries are written once, each with the axis of its entries.

    They are found by decoding `inputs` and looking at what a token changes: only the oldest entries leave and
    one is added at the end; or everything is replaced, whatever was there, and the tensor is one entry
    (tested at each of the last two tokens, since a tensor that restarts with each block does so at one of
    them).
    """
    axes: dict[str, set[int]] = {}
    grown: set[tuple[str, int]] = set()
    state, before = None, {}
    states: list[ModelState] = []  # before each of the last two tokens
    for token in inputs[:, :-1].split(1, dim=1):
        _, state = extend(token, state)
        states = [*states[-1:], state]
        now = dict(tensors(state))
        for name, leaf in now.items():
            possible = axes.setdefault(name, set(range(1, leaf.ndim)))
            if name in before:
                more = {axis: added(before[name], leaf, axis) for axis in possible}
                grown |= {(name, axis) for axis, count in more.items() if count}
                possible &= {axis for axis, count in more.items() if count is not None}
        before = now
    entries: dict[str, int] = {}
    for name, axis in sorted(grown, reverse=True):  # the first axis is the last to be put there
        if axis in axes[name]:
            entries[name] = axis
    last = inputs[:, -len(states) :].split(1, dim=1) if states else ()
    by_token = [_replaced(extend, token, state, entries) for token, state in zip(last, states, strict=True)]
    replaced = set.intersection(*by_token) if by_token else set()
    return entries | dict.fromkeys(sorted(replaced), BATCH)


def added(before: Tensor, now: Tensor, axis: int) -> int | None:
    """Return how many entries were added at the axis's end, 0 if none or unclear; None: more has changed."""
    if before.ndim != now.ndim:
        return None
    for new in (0, 1):
        stay = now.shape[axis] - new
        gone = before.shape[axis] - stay
        if gone >= 0 and stay >= 0:
            old, rest = before.narrow(axis, gone, stay), now.narrow(axis, 0, stay)
            if torch.equal(old, rest):
                return new if stay else 0
    return None


def _replaced(extend: Extend, token: Tensor, state: ModelState, entries: Mapping[str, int]) -> set[str]:
    """Return the tensors beside `entries` whose next value is the same whatever they hold now."""
    expected = dict(tensors(extend(token, state)[1]))
    replaced = set()
    for name, leaf in tensors(state):
        if name in entries or not leaf.is_floating_point():
            continue
        moved = ModelState(_with(state.layers, leaf, leaf * 1.5 + 1), state.offset)
        after = dict(tensors(extend(token, moved)[1]))
        if name in expected and torch.equal(after[name], expected[name]):
            replaced.add(name)
    return replaced


def _with(layers: Any, leaf: Tensor, other: Tensor) -> Any:
    return tree_map_only(Tensor, lambda each: other if each is leaf else each, layers)


def random_tokens(model: SequenceModel) -> Int[Tensor, "B T"]:
    """Return a row of PROBED tokens of the model's vocabulary, or of as many as the model takes."""
    length = PROBED
    while length > 2:
        try:
            model.check_length(length)
        except ValueError:
            length //= 2
        else:
            break
    return torch.randint(len(model.head_weight), (1, length), generator=torch.Generator().manual_seed(0))
