"""Check a task's first rows, and what a model claims about itself on live tensors, before anything trains.

Its memory must be what its parts' `state_size` says, decoding must give the outputs of training, and a causal
part must not see the future.  The laws of zoo.mixers check this thoroughly; this module checks any mixer that
is about to train, a user's too, on a few tokens.
"""

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zoo.blocks.base import Block
from zoo.common.checks import violation
from zoo.kernels.choice import check_served, kernels
from zoo.mixers.state import held
from zoo.model import SequenceModel
from zoo.tasks.around import inmost
from zoo.tasks.base import SPLITS, Task
from zoo.tasks.laws import FEW, Subject, ranges, same, shapes_and_types

if TYPE_CHECKING:
    from zoo.training.runs import Run  # Lightning: seconds, which a table of states should not cost

SHORT = 64  # the most tokens of a check, unless a boundary of the state lies beyond
FAR = 130  # tokens; no boundary of the state is looked for beyond them
TOLERANCE = 1e-3  # of the largest output: in an FFT later inputs change the rounding of earlier outputs
Found = tuple[int, str]  # a layer, and what is wrong with it


def check_run(run: "Run") -> None:
    """Check the task and the model of a run that is about to take its first step."""
    if run.position.step == 0:
        check_task(run.task, run.cell.task)
        check_model(run.model, *run.lengths, run.cell.kernels)


def check_task(task: Task, name: str) -> None:
    """Raise ValueError, one line, if first rows cannot be trained on, scored or made a second time."""
    few = min(FEW, *(segment.num_examples for split in SPLITS for segment in task.segments(split)))
    with torch.random.fork_rng(devices=[]):
        subject = Subject(lambda _: inmost(task), few)
        reasons = (violation(law(subject)) for law in (shapes_and_types, ranges, _made_again))
        if wrong := next(filter(None, reasons), None):
            raise ValueError(f"task={name}: {wrong}: mend it (all laws: python -m zoo.tasks --laws {name}).")


def _made_again(subject: Subject) -> Iterator[str]:
    """Yield a line if first rows are others when they are made a second time."""
    segment, batch = subject.of("train")[0]
    if not same(subject.task.sample("train", 0, range(subject.few)), batch):
        yield f"train {segment.name}: the same config and seed differ"


@torch.no_grad()
def check_model(model: SequenceModel, shortest: int, longest: int, kernel_choice: str = "auto") -> None:
    """Run a copy of the model on a few tokens, and compare what it does with what it claims.

    shortest, longest: lengths of the task's sequences.  kernel_choice: the cell's `kernels`.  The model, the
    generators and the record of kernels stay as they are.  A layer that is not causal, and all layers above
    it, may see the future.  ValueError, in one line: a layer keeps more or less than it claims, sees the
    future, draws at random or decodes otherwise than it trains; or none of its ops has the implementation
    that is asked for.
    """
    tried, short = copy.deepcopy(model).eval(), min(shortest, SHORT)
    with torch.random.fork_rng(devices=[]), kernels("auto"):
        for seq_len in _lengths(model, shortest, longest):
            _check_memory(tried, seq_len)
        if short > 1:
            _check_twice(tried, short, _in_order)
            _check_twice(tried, short, _as_decoded)
        check_served(kernel_choice, lambda: tried(_tokens(tried, shortest, seed=0)))


def _lengths(model: SequenceModel, shortest: int, longest: int) -> list[int]:
    """Return a short and a long length, and one just after the state's growth changes for the last time."""
    far = min(longest, FAR)
    sizes = [model.state_size(n).resident for n in range(1, far + 1)]
    growth = [after - before for before, after in pairwise(sizes)]
    turns = [i + 3 for i, (before, after) in enumerate(pairwise(growth)) if before != after]
    return sorted({min(shortest, SHORT), *turns[-1:], far})


def _check_memory(model: SequenceModel, seq_len: int) -> None:
    _, state = model.extend(_tokens(model, seq_len, seed=0))
    for i, (block, layer_state) in enumerate(zip(_blocks(model), state.layers, strict=True)):
        claimed, counted = block.state_size(seq_len).resident, held(layer_state)
        if claimed != counted and model.mixers[i].exact_decode:
            raise ValueError(
                f"{_name(block)} (layer {i}) holds {counted} scalars after {seq_len} tokens, and its "
                f"state_size says {claimed}: mend state_size({seq_len}).resident."
            )


def _check_twice(model: SequenceModel, seq_len: int, check: Callable[..., Found | None]) -> None:
    """Raise ValueError if a check finds a layer wrong on two draws of tokens.

    Rounding may tip a choice, say a top-k, but is unlikely to tip one twice.
    """
    found = check(model, seq_len, seed=0) and check(model, seq_len, seed=1)
    if found:
        layer, wrong = found
        raise ValueError(f"{_name(_blocks(model)[layer])} (layer {layer}) {wrong}.")


def _in_order(model: SequenceModel, seq_len: int, seed: int) -> Found | None:
    """Return the first causal layer whose outputs before a change of tokens differ; None: no such layer.

    There is a row for each cut, and a last one without a change.  Two cuts in a row: at least one of them is
    inside a chunk, whatever the size of chunks.
    """
    late = seq_len * 3 // 4
    cuts = {1, seq_len // 2, late - 1, late, seq_len - 1} - {0}
    before = torch.arange(seq_len) < torch.tensor([*sorted(cuts), seq_len])[:, None]
    tokens = _tokens(model, seq_len, seed)
    other = torch.where(before, tokens, (tokens + 1) % len(model.embedding))
    streams = [model.start(inputs) for inputs in (tokens, other)]
    for i, block in enumerate(_blocks(model)):
        if not block.mixer.causal:
            return None
        streams = [block(stream) for stream in streams]
        one, two = (stream.sum() for stream in streams)
        apart = ((one - two).abs().amax(-1) * before).amax(-1) > TOLERANCE * one.abs().max()  # false for NaN
        if apart[-1]:
            claim = "gives other outputs for the same tokens once more, beside other rows"
            return i, f"{claim}: in evaluation it must draw nothing, and never mix the rows of a batch"
        if apart.any():
            claim = "says causal=True, and its outputs change when later inputs do"
            return i, f"{claim}, within {seq_len} tokens: mend it, or set causal=False on it"
    return None


def _as_decoded(model: SequenceModel, seq_len: int, seed: int) -> Found | None:
    """Return the first layer whose `extend`, on two parts, differs from its `forward` on the whole."""
    tokens, cut = _tokens(model, seq_len, seed), max(1, seq_len * 3 // 4 - 1)
    whole, first, last = model.start(tokens), model.start(tokens[:, :cut]), model.start(tokens[:, cut:], cut)
    for i, block in enumerate(_blocks(model)):
        if not block.mixer.exact_decode:
            return None
        whole = block(whole)
        first, state = block.extend(first, None)
        last, _ = block.extend(last, state)
        decoded = torch.cat([first.sum(), last.sum()], dim=1)
        if (whole.sum() - decoded).abs().max() > TOLERANCE * decoded.abs().max():
            claim = f"gives other outputs by `extend`, on {cut} tokens and the rest, than by `forward` on all"
            return i, f"{claim} {seq_len}: mend one of the two, or set exact_decode=False on it"
    return None


def _tokens(model: SequenceModel, seq_len: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(len(model.embedding), (1, seq_len), generator=generator)


def _blocks(model: SequenceModel) -> list[Block]:
    return list(model.blocks)  # pyright: ignore[reportReturnType]


def _name(block: Block) -> str:
    return " with ".join(type(part).__name__ for part in block.remembering)
