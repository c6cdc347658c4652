"""One formulation of a cell's training step, in a process of its own: memory settings are a process's."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from zoo import interrupts
from zoo.bench.flops import flops
from zoo.bench.machine import now
from zoo.bench.op_seconds import seconds_of_ops
from zoo.bench.plain import all_logits_loss, plain_optimizer
from zoo.config.cell import Cell
from zoo.instantiate import task_of
from zoo.kernels.choice import kernels
from zoo.model import build_model
from zoo.tasks.base import Batch
from zoo.training.lightning_module import answers_loss
from zoo.training.optimizer import make_optimizer
from zoo.training.process import keep_freed_memory

MOST_NAMED = 3  # operations that hold a step
FEW = 8  # times fewer rows, where a step is taken only to be looked at
Asked = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """precision: as in conf/trainer.  answers_only: the fast head, optimizer and memory."""

    kernels: str
    precision: str
    answers_only: bool


FORMS = {
    "zoo": Form(kernels="auto", precision="32-true", answers_only=True),
    "zoo bf16-head": Form(kernels="auto", precision="bf16-head", answers_only=True),
    "zoo bf16-mixed": Form(kernels="auto", precision="bf16-mixed", answers_only=True),
    "all logits": Form(kernels="auto", precision="32-true", answers_only=False),
    "plain": Form(kernels="reference", precision="32-true", answers_only=False),
}


class Steps:
    """The training of a cell, step by step, on any batch of its task."""

    def __init__(self, cell: Cell, form: Form, kind: str, threads: int) -> None:
        torch.set_num_threads(threads)
        if form.answers_only:
            keep_freed_memory()
        self.form, self.kind, self.threads = form, kind, threads
        self.config = cell.optim
        self.task = task_of(cell)
        self.model = build_model(cell).to(kind)
        self.model.bf16_head = form.precision == "bf16-head"
        make = make_optimizer if form.answers_only else plain_optimizer
        self.optimizer = make(self.model, self.config, cell.lr)

    def timed(self, segment: int, batch: int) -> tuple[float, float]:
        """Seconds of a step, its data included, and its loss."""
        began = now(self.kind, self.threads)
        loss = self.step(segment, batch)
        return now(self.kind, self.threads) - began, float(loss)

    def step(self, segment: int, batch: int, size: int | None = None) -> torch.Tensor:
        size = size or self.config.batch_size
        rows = self.task.sample("train", segment, range(batch * size, (batch + 1) * size), self.kind)
        self.optimizer.zero_grad()
        with kernels(self.form.kernels):
            loss = self._loss(rows)
        loss.backward()
        if self.config.grad_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_clip)
        self.optimizer.step()
        return loss.detach()

    def _loss(self, rows: Batch) -> torch.Tensor:
        loss_of = answers_loss if self.form.answers_only else all_logits_loss
        with torch.autocast(self.kind, torch.bfloat16, enabled=self.form.precision == "bf16-mixed"):
            return loss_of(self.model, rows)

    def flops(self, segment: int) -> float:
        """Of the products of one step; takes one of few rows, as they are in proportion to rows."""
        size = self.config.batch_size
        rows = max(1, size // FEW)
        return flops(lambda: self.step(segment, 0, rows)) * size / rows

    def held_by(self, segment: int) -> str:
        """What most of a step's time goes to; takes one."""
        seconds = seconds_of_ops(lambda: self.step(segment, 0), self.kind, self.threads)
        most = sorted(seconds, key=seconds.__getitem__, reverse=True)[:MOST_NAMED]
        whole = sum(seconds.values())
        return ", ".join(f"{name} {seconds[name] / whole:.0%}" for name in most)


_STEPS: Steps | None = None  # of this process, which serves no other


def begin(cell: Cell, form: Form, kind: str, threads: int) -> None:
    interrupts.leave_to_driver()
    global _STEPS
    _STEPS = Steps(cell, form, kind, threads)


def ask(method: str, *args: Any) -> Any:
    """`method` of the process's Steps."""
    assert _STEPS is not None
    return getattr(_STEPS, method)(*args)


@contextmanager
def processes(cell: Cell, forms: Iterable[str], kind: str, threads: int) -> Iterator[dict[str, Asked]]:
    """A process for each form, all from the same weights; name -> a function that asks it."""
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(
                ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn"), begin, (cell, FORMS[name], kind, threads)
                )
            )
            for name in forms
        }
        started(pools.values())
        yield {
            name: (lambda *args, pool=pool: pool.submit(ask, *args).result()) for name, pool in pools.items()
        }


def started(pools: Iterable[ProcessPoolExecutor]) -> None:
    """Begin their processes, which leave Ctrl-C to this one from their first line on."""
    with interrupts.unheard(signal.SIGINT):
        for pool in pools:
            pool.submit(int)
