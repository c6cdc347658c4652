"""Try a population before it trains: it must compute what its members compute, and be faster here."""

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from statistics import median

import torch
from torch import Tensor

from zoo.common.checks import reason
from zoo.config.settings import TrainerConfig
from zoo.kernels.choice import Refused
from zoo.model import weights_dtype
from zoo.tasks.base import Batch
from zoo.training.loss import answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, Unstackable
from zoo.training.population.step import PopulationStep
from zoo.training.process import now
from zoo.training.runs import Run, stacked
from zoo.training.step import Stepper

ROWS = 2  # of a batch, to compare
CHECKED = 4  # members: vmap treats more of them alike
TOLERANCE = {torch.float64: 1e-6, torch.float32: 0.05}  # relative; a choice (top-k) may flip in float32
REPEATS = 5
# Seconds per step.  A CPU that takes longer is bound by arithmetic: there stacking was measured to take up to
# 1.7 times as long (bigger working set, batched products); below some milliseconds it saves up to 6 times.
TOO_LONG = 0.05
RATE = 1e-6  # the learning rate in a trial
GAIN = 0.9  # stacked steps must take less than this share of the members' own time: a gain above the noise
Step = Callable[[int], object]  # on a batch of that training segment


def check_lifts(members: Sequence[Run], trainer: TrainerConfig) -> None:
    """Raise Unstackable if the stacked models compute other losses or gradients than each does alone.

    The comparison is on two rows of every training segment; on a CPU in float64, where rounding cannot hide a
    mistake, unless the chosen kernels do not support float64.
    """
    try:
        wrong = _most_exact_disagreement(members[:CHECKED], trainer)
    except Unstackable:
        raise
    except Exception as error:  # whatever a mixer does that torch.func cannot lift
        raise Unstackable(f"torch.func cannot lift it ({reason(error)})") from error
    if wrong:
        raise Unstackable(wrong)


def _most_exact_disagreement(members: Sequence[Run], trainer: TrainerConfig) -> str:
    if trainer.device == "cpu":
        with suppress(Refused):
            return _disagreement(members, torch.float64)
    return _disagreement(members, torch.float32)


def _disagreement(members: Sequence[Run], dtype: torch.dtype) -> str:
    device = members[0].cell.trainer.device  # where the batches are
    models = [copy.deepcopy(run.model).to(device, dtype).train() for run in members]
    stack = Stack(copy.deepcopy(models))
    seeds = [run.seed_at(0) for run in members]
    for segment in range(len(members[0].task.segments("train"))):
        batches = [_rows(run, segment, ROWS) for run in members]
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
            parameters = dict(model.named_parameters())
            for name, leaf in zip(stack.trained, stack.leaves, strict=True):
                if not _close_gradients(None if leaf.grad is None else leaf.grad[i], parameters[name].grad):
                    return f"the gradient of {name} is another when stacked"
    return ""


def _close(a: Tensor, b: Tensor) -> bool:
    tolerance = TOLERANCE[a.dtype]
    return bool((a - b).norm() <= tolerance * (b.norm() + tolerance))


def _close_gradients(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype != torch.float64 or _close(a, b)  # in float32 a choice (top-k) may differ


def _rows(run: Run, segment: int, rows: int) -> Batch:
    stream = run.streams["train"]
    return stream.task.sample("train", segment, range(rows), stream.device)


def too_long(members: Sequence[Run], trainer: TrainerConfig) -> str:
    """Return why a comparison is not worth its time, from two steps of each segment; "" always on a GPU."""
    if trainer.device != "cpu":
        return ""
    seconds = _seconds([alone(members[0], trainer)], members[0], trainer, repeats=1)[0]
    if seconds <= TOO_LONG:
        return ""
    return f"a step alone takes {1000 * seconds:.3g} ms: arithmetic and not dispatch bounds it"


def slower(members: Sequence[Run], trainer: TrainerConfig) -> str:
    """Return why these cells train faster one by one, measured on copies; empty where they do not."""
    steps = [alone(members[0], trainer), together(members, trainer)]
    one, all_ = _seconds(steps, members[0], trainer, REPEATS)
    each = all_ / len(members)
    if each < GAIN * one:
        return ""
    return f"a step takes {1000 * one:.3g} ms alone and {1000 * each:.3g} ms a member of {len(members)}"


def fitting(members: Sequence[Run], trainer: TrainerConfig) -> int:
    """Return how many members a GPU's memory can hold, from the peak of one member's step; on a CPU all."""
    if trainer.device == "cpu":
        return len(members)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _seconds([alone(members[0], trainer)], members[0], trainer, repeats=1)
    peak = torch.cuda.max_memory_allocated() - before
    torch.cuda.empty_cache()
    return max(1, int(0.8 * torch.cuda.mem_get_info()[0] / max(1, peak)))


def alone(run: Run, trainer: TrainerConfig) -> Step:
    """Return a function that takes a training step of a copy of one cell, on a given segment."""
    model = copy.deepcopy(run.model).to(trainer.device, weights_dtype(trainer)).train()
    config = run.cell.optim

    def loss(*fields: Tensor) -> Tensor:
        return answers_loss(model, Batch.of(*fields))

    take = Stepper(trainer.step, model, make_optimizer(model, config, RATE), loss, config.grad_clip)
    batches = [_rows(run, i, config.batch_size) for i in _segments(run)]
    return lambda segment: take(batches[segment].tensors, RATE)


def together(members: Sequence[Run], trainer: TrainerConfig) -> Step:
    """Return a function that takes a training step of a population of copies, on a given segment."""
    stack = Stack(
        [copy.deepcopy(b.model).to(trainer.device, weights_dtype(trainer)).train() for b in members]
    )
    optimizer = PopulationAdamW(stack, [run.cell.optim for run in members])
    take = PopulationStep(stack, optimizer, trainer.step)
    seeds, rates = [0] * len(members), [RATE] * len(members)
    rows = members[0].cell.optim.batch_size
    shared = all(run.streams is members[0].streams for run in members)
    those = members[:1] if shared else members
    batches = [stacked([_rows(b, i, rows) for b in those]) for i in _segments(members[0])]
    return lambda segment: take(batches[segment], seeds, rates)


def _segments(run: Run) -> range:
    return range(len(run.streams["train"].segments))


def shares(run: Run) -> list[float]:
    """Return the share of the training batches that each segment has."""
    plan = [segment for segment, _ in run.streams["train"].plan(0)]
    return [plan.count(i) / len(plan) for i in _segments(run)]


def _seconds(steps: Sequence[Step], run: Run, trainer: TrainerConfig, repeats: int) -> list[float]:
    """Measure the median seconds of each kind of step."""
    clock = partial(now, trainer.device, torch.get_num_threads())
    return [median(times) for times in in_turn(steps, run, trainer, repeats, clock)]


def in_turn(
    steps: Sequence[Step], run: Run, trainer: TrainerConfig, repeats: int, now: Callable[[], float]
) -> list[list[float]]:
    """Return the seconds of each kind of step in each repeat, averaged over segments by share of batches.

    A first round warms up.  The kinds take turns, so that other work of the machine slows all alike.
    """
    parts = shares(run)
    times = [[0.0] * repeats for _ in steps]
    with torch.autocast(trainer.device, torch.bfloat16, enabled=trainer.precision == "bf16-mixed"):
        for turn, segment, k in product(range(-1, repeats), range(len(parts)), range(len(steps))):
            began = now()
            steps[k](segment)
            if turn >= 0:
                times[k][turn] += parts[segment] * (now() - began)
    return times
