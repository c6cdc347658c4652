"""Before a population trains: does it compute what its members compute, and does that pay on this machine?"""

import copy
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zoo.attempt import reason
from zoo.learner import answers_loss
from zoo.optimizer import make_optimizer
from zoo.population.learner import stacked
from zoo.population.optimizer import PopulationAdamW
from zoo.population.stack import Stack, Unstackable
from zoo.tasks.base import Batch
from zoo.training import Begun, TrainerConfig

ROWS = 2  # of a batch, to compare
TOLERANCE = {torch.float64: 1e-6, torch.float32: 0.05}  # relative; a choice (top-k) may flip in float32
REPEATS = 3
# Seconds a step.  A CPU that takes longer is bound by arithmetic: measured, stacking there costs up to 1.7
# times as much (bigger working set, batched products), while below some milliseconds it saves up to 6 times.
TOO_LONG = 0.05
GAIN = 0.9  # stacked must take less than this part of what the members take alone


def check_lifts(members: Sequence[Begun], trainer: TrainerConfig) -> None:
    """Unstackable: stacked, these models do not compute the losses and gradients that they compute alone.

    On two rows of every training segment; on a CPU in float64, where rounding cannot hide a mistake.
    """
    try:
        wrong = _disagreement(members, torch.float64 if trainer.device == "cpu" else torch.float32)
    except Unstackable:
        raise
    except Exception as error:  # whatever a mixer does that torch.func cannot lift
        raise Unstackable(f"torch.func cannot lift it ({reason(error)})") from error
    if wrong:
        raise Unstackable(wrong)


def _disagreement(members: Sequence[Begun], dtype: torch.dtype) -> str:
    models = [copy.deepcopy(begun.model).to(dtype).train() for begun in members]
    stack = Stack(copy.deepcopy(models))
    seeds = [begun.journal.draws_at(0) for begun in members]
    for segment in range(len(members[0].task.segments("train"))):
        batches = [_rows(begun, segment, ROWS) for begun in members]
        stack.draws.begin(seeds)
        for leaf in stack.leaves:
            leaf.grad = None
        losses = stack.map(answers_loss, stacked(batches))
        losses.sum().backward()
        for i, (model, batch, seed) in enumerate(zip(models, batches, seeds, strict=True)):
            torch.manual_seed(seed)
            model.zero_grad()
            alone = answers_loss(model, batch)
            alone.backward()
            if not _close(losses[i], alone):
                return f"stacked its loss is {losses[i].item():.6g}, alone {alone.item():.6g}"
            own = dict(model.named_parameters())
            for name, leaf in zip(stack.trained, stack.leaves, strict=True):
                if not _close_gradients(None if leaf.grad is None else leaf.grad[i], own[name].grad):
                    return f"the gradient of {name} is another when stacked"
    return ""


def _close(a: Tensor, b: Tensor) -> bool:
    tolerance = TOLERANCE[a.dtype]
    return bool((a - b).norm() <= tolerance * (b.norm() + tolerance))


def _close_gradients(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype != torch.float64 or _close(a, b)  # float32 may choose (top-k) otherwise


def _rows(begun: Begun, segment: int, rows: int) -> Batch:
    stream = begun.journal.streams["train"]
    return stream.task.sample("train", segment, range(rows), stream.device)


def slower(members: Sequence[Begun], trainer: TrainerConfig) -> str:
    """Why these cells train faster one by one, measured on copies; empty where they do not."""
    train = members[0].journal.streams["train"]
    plan = [segment for segment, _ in train.plan(0)]
    parts = [plan.count(segment) / len(plan) for segment in range(len(train.segments))]
    alone = _alone(members[0], trainer, parts)
    if trainer.device == "cpu" and alone > TOO_LONG:
        return f"a step alone takes {1000 * alone:.3g} ms: arithmetic and not dispatch bounds it"
    together = _together(members, trainer, parts) / len(members)
    if together < GAIN * alone:
        return ""
    return f"a step takes {1000 * alone:.3g} ms alone and {1000 * together:.3g} ms a member of {len(members)}"


def fitting(members: Sequence[Begun], trainer: TrainerConfig) -> int:
    """How many members the memory of a GPU can hold, from the peak of one member's step; on a CPU all."""
    if trainer.device == "cpu":
        return len(members)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    train = members[0].journal.streams["train"]
    _alone(members[0], trainer, [1.0] * len(train.segments))
    peak = torch.cuda.max_memory_allocated() - before
    torch.cuda.empty_cache()
    return max(1, int(0.8 * torch.cuda.mem_get_info()[0] / max(1, peak)))


def _alone(begun: Begun, trainer: TrainerConfig, parts: Sequence[float]) -> float:
    model = copy.deepcopy(begun.model).to(trainer.device, trainer.dtype).train()
    optimizer = make_optimizer(model, begun.journal.config, 1e-6)

    def step(segment: int) -> None:
        optimizer.zero_grad()
        answers_loss(model, batches[segment]).backward()
        if begun.journal.config.grad_clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), begun.journal.config.grad_clip)
        optimizer.step()

    batches = [_rows(begun, i, begun.journal.config.batch_size) for i in range(len(parts))]
    return _seconds(step, trainer, parts)


def _together(members: Sequence[Begun], trainer: TrainerConfig, parts: Sequence[float]) -> float:
    stack = Stack([copy.deepcopy(b.model).to(trainer.device, trainer.dtype).train() for b in members])
    optimizer = PopulationAdamW(stack, [begun.journal.config for begun in members])
    optimizer.set_rates([1e-6] * len(members))

    def step(segment: int) -> None:
        optimizer.zero_grad()
        stack.draws.begin([0] * len(members))
        stack.map(answers_loss, batches[segment]).sum().backward()
        optimizer.step()

    rows = members[0].journal.config.batch_size
    shared = all(begun.journal.streams is members[0].journal.streams for begun in members)
    those = members[:1] if shared else members
    batches = [stacked([_rows(b, i, rows) for b in those]) for i in range(len(parts))]
    return _seconds(step, trainer, parts)


def _seconds(step: Callable[[int], None], trainer: TrainerConfig, parts: Sequence[float]) -> float:
    """Of a step, averaged over the training segments by their share of the batches."""
    mixed = trainer.precision == "bf16-mixed"
    with torch.autocast(trainer.device, torch.bfloat16, enabled=mixed):
        return sum(part * _quickest(step, i, trainer.device) for i, part in enumerate(parts))


def _quickest(step: Callable[[int], None], segment: int, device: str) -> float:
    step(segment)
    seconds = []
    for _ in range(REPEATS):
        began = _now(device)
        step(segment)
        seconds.append(_now(device) - began)
    return min(seconds)


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
