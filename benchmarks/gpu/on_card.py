"""Choices on the card: their results where nothing is written but by themselves, their seconds in a graph."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.ahead import Job
from benchmarks.gpu.calls import Call, call_of
from benchmarks.gpu.ranking import disagreement
from zoo.checks import one_line
from zoo.kernels.proof import poisoned

REPLAY_S, MOST_CALLS = 0.002, 32  # calls in one graph: starting it then takes little of its time


def results(call: Call) -> list[Tensor]:
    with poisoned():
        found = call()
    torch.cuda.synchronize()
    return found


@dataclass(frozen=True)
class Graph:
    """So many calls."""

    graph: torch.cuda.CUDAGraph
    calls: int

    def seconds(self) -> float:
        """Of one call."""
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        self.graph.replay()
        ended.record()
        ended.synchronize()
        return began.elapsed_time(ended) / 1000 / self.calls


def captured(call: Call, calls: int | None = None) -> Graph:
    """calls: None: as many as last a while.  The call has run before: what it compiles is compiled."""
    if calls is None:
        one = captured(call, 1)
        one.seconds()
        calls = max(1, min(MOST_CALLS, math.ceil(REPLAY_S / one.seconds())))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return Graph(graph, calls)


class Lost(Exception):
    """After an error on the card a process can do nothing more there."""


class Card:
    """A job's calls: timed as the job says, compared with their gradients and at a ragged length too."""

    def __init__(self, job: Job) -> None:
        one = job.one
        self.job, self.timed = job, call_of(one.subject, one.backward, "cuda", job.dtype)
        self.compared = [call_of(s, s.trained, "cuda", job.dtype) for s in (one.subject, one.ragged)]
        self.true = [results(call) for call in self.compared]
        if not all(bool(x.isfinite().all()) for found in self.true for x in found):
            raise ValueError("the static choice gives numbers that are not finite")
        self.timed()
        self.static = captured(self.timed)

    def tried(self, value: Any) -> Graph | str:
        """Ready to be timed, or why not."""
        try:
            with self.job.knob.at(value):
                for call, true in zip(self.compared, self.true, strict=True):
                    if wrong := disagreement(results(call), true):
                        return wrong
                return captured(self.timed, self.static.calls)
        except Exception as error:  # whatever a launch says no with
            return _said(error)


def on(job: Job) -> Card | str:
    """Ready for the job, or why its static choice is not fit to be compared with."""
    try:
        return Card(job)
    except Exception as error:
        return f"static choice {_said(error)}"


def _said(error: Exception) -> str:
    said = f"{type(error).__name__}: {one_line(error)[:120]}"
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        raise Lost(said) from error
    return f"fails: {said}"
