"""Check what a model claims about itself on live tensors, before anything trains.

Its memory must be what its parts' `state_size` says, and a causal part must not see the future.  The laws in
tests/ check both for zoo's own mixers; this module checks any mixer, a user's too, on a few tokens.
"""

import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from zoo.blocks.base import Block
from zoo.kernels.choice import check_served, kernels
from zoo.model import SequenceModel

if TYPE_CHECKING:
    from zoo.training.runs import Run  # Lightning: seconds, which a table of states should not cost

SHORT = 64  # the most tokens of a check, unless a boundary of the state lies beyond
FAR = 130  # tokens; no boundary of the state is looked for beyond them
TOLERANCE = 1e-3  # of the largest output: in an FFT later inputs change the rounding of earlier outputs


def check_run(run: "Run") -> None:
    """Check the model of a run that is about to take its first step."""
    if run.position.step == 0:
        check_model(run.model, *run.lengths, run.cell.kernels)


@torch.no_grad()
def check_model(model: SequenceModel, shortest: int, longest: int, kernel_choice: str = "auto") -> None:
    """Run a copy of the model on a few tokens, and compare what it does with what it claims.

    shortest, longest: lengths of the task's sequences.  kernel_choice: the cell's `kernels`.  The model, the
    generators and the record of kernels stay as they are.  A layer that is not causal, and all layers above
    it, may see the future.  ValueError, in one line: a layer keeps more or less than it claims, or sees the
    future; or none of its ops has the implementation that is asked for.
    """
    tried = copy.deepcopy(model).eval()
    with torch.random.fork_rng(devices=[]), kernels("auto"):
        for seq_len in _lengths(model, shortest, longest):
            _check_memory(tried, seq_len)
        _check_order(tried, min(shortest, SHORT))
        check_served(kernel_choice, lambda: tried(_tokens(tried, shortest, seed=0)))


def _lengths(model: SequenceModel, shortest: int, longest: int) -> list[int]:
    """Return a short length, and one just after the last length where the growth of the state changes."""
    sizes = [model.state_size(n).resident for n in range(1, min(longest, FAR) + 1)]
    growth = [after - before for before, after in pairwise(sizes)]
    turns = [i + 3 for i, (before, after) in enumerate(pairwise(growth)) if before != after]
    return sorted({min(shortest, SHORT), *turns[-1:]})


def _check_memory(model: SequenceModel, seq_len: int) -> None:
    _, state = model.extend(_tokens(model, seq_len, seed=0))
    for i, (block, layer_state) in enumerate(zip(_blocks(model), state.layers, strict=True)):
        claimed, counted = block.state_size(seq_len).resident, held(layer_state)
        if claimed != counted and model.mixers[i].exact_decode:
            raise ValueError(
                f"{_name(block)} (layer {i}) holds {counted} scalars after {seq_len} tokens, and its "
                f"state_size says {claimed}: mend state_size({seq_len}).resident."
            )


def held(state: Any) -> int:
    """Return the scalars per sequence in a state of tensors [B ...]; a complex number counts as two."""
    if isinstance(state, tuple | list):
        return sum(map(held, state))
    if not isinstance(state, Tensor) or not (state.is_floating_point() or state.is_complex()):
        return 0
    return state[0].numel() * (2 if state.is_complex() else 1)


def _check_order(model: SequenceModel, seq_len: int) -> None:
    """Check that a change of the last quarter of the tokens does not change the outputs before it."""
    if seq_len < 2 or len(model.embedding) < 2:
        return
    layer = _sees_future(model, seq_len, seed=0)
    if layer is None or _sees_future(model, seq_len, seed=1) is None:
        return  # a choice (say a top-k) that the last bit tips is unlikely to tip twice
    raise ValueError(
        f"{_name(_blocks(model)[layer])} (layer {layer}) says causal=True, and its outputs change when later "
        f"inputs do, within {seq_len} tokens: mend it, or set causal=False on it."
    )


def _sees_future(model: SequenceModel, seq_len: int, seed: int) -> int | None:
    """Return the first causal layer whose outputs before the change differ; None: no such layer."""
    cut = seq_len - max(1, seq_len // 4)
    tokens = _tokens(model, seq_len, seed)
    other = tokens.clone()
    other[:, cut:] = (other[:, cut:] + 1) % len(model.embedding)
    streams = [model.start(inputs) for inputs in (tokens, other)]
    for i, block in enumerate(_blocks(model)):
        if not block.mixer.causal:
            return None
        streams = [block(stream) for stream in streams]
        one, two = (stream.sum() for stream in streams)
        if (one - two)[:, :cut].abs().max() > TOLERANCE * one.abs().max():  # false for NaN
            return i
    return None


def _tokens(model: SequenceModel, seq_len: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(len(model.embedding), (1, seq_len), generator=generator)


def _blocks(model: SequenceModel) -> list[Block]:
    return list(model.blocks)  # pyright: ignore[reportReturnType]


def _name(block: Block) -> str:
    return " with ".join(type(part).__name__ for part in block.remembering)
