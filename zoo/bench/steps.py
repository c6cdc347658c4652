"""Run one form of a cell's training step, in a process of its own because memory settings are per process.

The plain form is what a first draft of a model and its loss does: float32 logits over the whole vocabulary at
every position, with a masked loss; every op by its definition (`kernels=reference`: masks, scores and weights
as T x T tensors); AdamW in torch's foreach form, not fused; memory as the C library hands it out.  Where the
definition of an op is a recurrence, its reference is a loop in Python.  "all logits" is then the fairer
alternative: it has the same head and optimizer, but its ops run under `kernels=auto`.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.bench.counting import flops, seconds_of_ops
from zoo.bench.machine import most_resident
from zoo.common import forkserver, interrupts
from zoo.config.cell import Cell
from zoo.kernels.choice import kernels
from zoo.model import SequenceModel, build_model
from zoo.tasks.base import IGNORED, Batch
from zoo.tasks.build import task_of
from zoo.training.loss import answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.process import keep_freed_memory, now
from zoo.training.step import Stepper

MOST_NAMED = 3  # operations that `held_by` names
FEW = 8  # times fewer rows, where a step is taken only to count its products
Call = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """The way that a training step is computed.

    kernels, precision, step: the settings of these names.  answers_only: use the loss of the answers alone,
    the fused optimizer and kept memory, as training does; False: use those of the plain form.
    """

    kernels: str = "auto"
    precision: str = "32-true"
    step: str = "eager"
    answers_only: bool = True

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of most of the step's products."""
        return torch.float32 if self.precision == "32-true" else torch.bfloat16


BASES = {
    "zoo": Form(),
    "all logits": Form(answers_only=False),
    "plain": Form(answers_only=False, kernels="reference"),
}
WORDS = (
    {word: {"precision": word} for word in ("bf16-head", "bf16-mixed")}
    | {word: {"step": word} for word in ("graph", "compile")}
    | {word: {"kernels": word} for word in ("triton", "package", "reference")}
)


def form_of(name: str) -> Form:
    """Return the form named `name`, such as "zoo bf16-mixed graph".  ValueError: there is no such form."""
    base = next((base for base in BASES if f"{name} ".startswith(f"{base} ")), "")
    words = name.removeprefix(base).split()
    if not base or not set(words) <= set(WORDS):
        raise ValueError(
            f"--forms (={name!r}) must be one of {', '.join(BASES)}, by itself or with words after it, as in "
            f"'zoo bf16-head': {', '.join(WORDS)}."
        )
    return replace(BASES[base], **{key: value for word in words for key, value in WORDS[word].items()})


class Steps:
    """The training of a cell, step by step, on any batch of its task."""

    def __init__(self, cell: Cell, form: Form, kind: str, threads: int) -> None:
        torch.set_num_threads(threads)
        if form.answers_only:
            keep_freed_memory()
        self.form, self.kind, self.threads = form, kind, threads
        self.lr, self.batch_size = cell.lr, cell.optim.batch_size
        self.task = task_of(cell)
        self.model = build_model(cell).to(kind)
        self.model.bf16_head = form.precision == "bf16-head"
        optimizer = make_optimizer(self.model, cell.optim, cell.lr)
        if not form.answers_only:  # the same parameter groups, without the fused update
            optimizer = torch.optim.AdamW(optimizer.param_groups, foreach=True, fused=False)
        self._take, self._take_eagerly = (
            Stepper(step, self.model, optimizer, self._loss, cell.optim.grad_clip)
            for step in (form.step, "eager")
        )

    def timed(self, segment: int, batch: int) -> tuple[float, float]:
        """Take a step on a batch that is made beforehand, and return its seconds and its loss."""
        rows = self._rows(segment, batch, self.batch_size)
        start = now(self.kind, self.threads)
        loss = self._step(self._take, rows)
        return now(self.kind, self.threads) - start, float(loss)

    def _rows(self, segment: int, batch: int, size: int) -> Batch:
        return self.task.sample("train", segment, range(batch * size, (batch + 1) * size), self.kind)

    def _step(self, take: Stepper, rows: Batch) -> Tensor:
        mixed = self.form.precision == "bf16-mixed"
        with kernels(self.form.kernels), torch.autocast(self.kind, torch.bfloat16, enabled=mixed):
            return take(rows.tensors, self.lr)

    def _loss(self, *tensors: Tensor) -> Tensor:
        loss_of = answers_loss if self.form.answers_only else all_logits_loss
        return loss_of(self.model, Batch.of(*tensors))

    def flops(self, segment: int) -> float:
        """Return the FLOPs of one step, counted on fewer rows and scaled: FLOPs are proportional to rows."""
        rows = max(1, self.batch_size // FEW)
        batch = self._rows(segment, 0, rows)
        return flops(lambda: self._step(self._take_eagerly, batch)) * self.batch_size / rows

    def held_by(self, segment: int) -> str:
        """Name the operations that take most of an eager step's time, with their shares."""
        batch = self._rows(segment, 0, self.batch_size)
        seconds = seconds_of_ops(lambda: self._step(self._take_eagerly, batch), self.kind, self.threads)
        most = sorted(seconds, key=seconds.__getitem__, reverse=True)[:MOST_NAMED]
        whole = sum(seconds.values())
        return ", ".join(f"{name} {seconds[name] / whole:.0%}" for name in most)

    def peak_bytes(self) -> int | None:
        """Return the most memory that this process has held on its device; None where it is not counted."""
        return torch.cuda.max_memory_allocated() if self.kind == "cuda" else most_resident()


def all_logits_loss(model: SequenceModel, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of the answers, through the logits [B T V] of every position."""
    labels = torch.full_like(batch.inputs, IGNORED).scatter_(1, batch.positions, batch.answers)
    logits = model.logits(model(batch.inputs))
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


_STEPS: Steps | None = None  # the one `Steps` of this process


def begin(cell: Cell, form: Form, kind: str, threads: int) -> None:
    """Create the Steps of this worker process; Ctrl-C is left to the bench process."""
    interrupts.follow_driver()
    global _STEPS
    _STEPS = Steps(cell, form, kind, threads)


def ask(method: str, *args: Any) -> Any:
    """Call a method of the process's Steps."""
    assert _STEPS is not None
    return getattr(_STEPS, method)(*args)


@contextmanager
def processes(cell: Cell, forms: Iterable[str], kind: str, threads: int) -> Iterator[dict[str, Call]]:
    """Start a process for each form, with equal weights; yield name -> a function that calls its Steps."""
    context = forkserver.start([__name__])
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(
                ProcessPoolExecutor(1, context, begin, (cell, form_of(name), kind, threads))
            )
            for name in forms
        }
        started(pools.values())
        yield {
            name: (lambda *args, pool=pool: pool.submit(ask, *args).result()) for name, pool in pools.items()
        }


def started(pools: Iterable[ProcessPoolExecutor]) -> None:
    """Start the processes of the pools; from their first line on they leave Ctrl-C to this process."""
    with interrupts.unheard(signal.SIGINT):
        for pool in pools:
            pool.submit(int)
