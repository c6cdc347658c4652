"""What there is to try, op after op, with its compilation under way in other processes."""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu.choices import Knob, alternatives, words
from benchmarks.gpu.compiling import Order, asked, unfit
from benchmarks.gpu.tuned import Tuned, tuned

FITS, NO_TIME = "fits", "no time was left"


@dataclass(frozen=True)
class Clock:
    """Seconds from now on."""

    seconds: float
    began: float

    @classmethod
    def of(cls, seconds: float) -> "Clock":
        return cls(seconds, time.monotonic())

    @property
    def gone(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        return self.seconds - self.gone


@dataclass(frozen=True)
class Job:
    """One entry of a table, or one constant.  verdicts: value -> why it cannot be launched, or None."""

    one: Tuned
    dtype: torch.dtype
    knob: Knob
    static: Any
    verdicts: list[tuple[Any, Future[str | None]]]

    @property
    def key(self) -> dict[str, str]:
        """What a row is known by."""
        return {
            "op": self.one.op,
            "kernel": self.knob.word,
            "shape": f"{self.one.subject.name}: {self.one.subject.words}",
            "dtype": str(self.dtype).removeprefix("torch."),
            "way": self.one.way,
            "static": words(self.static),
        }


@dataclass(frozen=True)
class Ahead:
    """numbers: of `tuned(small)`.  most: choices tried beside the static one, the nearest first."""

    numbers: list[int]
    small: bool
    dtype: torch.dtype
    arch: int
    most: int
    clock: Clock

    def jobs(self, workers: int) -> Iterator[Job]:
        """In the order of the plan; the next op compiles while the jobs of one are looked at."""
        with self._pool(workers) as pool:
            surveys = [
                pool.submit(asked, number, self.small, self.dtype, self.arch) for number in self.numbers
            ]
            try:
                waiting: list[Job] = []
                for number, survey in zip(self.numbers, surveys, strict=True):
                    coming = self._ordered(pool, number, survey)
                    yield from waiting
                    waiting = coming
                yield from waiting
            finally:
                pool.shutdown(cancel_futures=True)

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        """Of processes that end by themselves when the time is over, whatever they compile."""
        return ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),
            initializer=signal.alarm,
            initargs=(max(1, int(self.clock.left)),),
        )

    def _ordered(self, pool: ProcessPoolExecutor, number: int, survey: Future[Any]) -> list[Job]:
        one = tuned(self.small)[number]
        try:
            found = survey.result(max(0.0, self.clock.left))
        except (TimeoutError, BrokenExecutor):
            return []
        except Exception as error:  # the op as it is does not compile
            print(f"not tuned: {one.subject.name}: {type(error).__name__}: {error}"[:200], flush=True)
            return []
        jobs = []
        for knob, static in found:
            others = one.constants.get(knob) or alternatives(static, self.most)
            orders = [Order(number, self.small, self.dtype, self.arch, knob, value) for value in others]
            verdicts = [(order.value, pool.submit(unfit, order)) for order in orders]
            jobs.append(Job(one, self.dtype, knob, static, verdicts))
        return jobs


def verdict(future: Future[str | None], clock: Clock) -> str:
    """Why it cannot be launched, or that it can."""
    try:
        return future.result(max(0.0, clock.left)) or FITS
    except TimeoutError:
        return NO_TIME
    except BrokenExecutor:
        return NO_TIME if clock.left <= 1 else "not compiled: the compiler crashed"
