"""Compare a kernel with its definition and time it: python -m zoo.kernels.common.proof REQUEST ANSWER

This is a process of its own, started by verdicts.py, because a kernel may end its process.  verdicts.py
writes REQUEST and this module ANSWER, in a folder that only the user can enter.
"""

import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from zoo.common.checks import one_line
from zoo.kernels.common.agreement import (
    Truth,
    distances,
    requires_gradient,
    results,
    same_bits_twice,
    truth,
    upstreams_of,
)
from zoo.kernels.common.ragged import few_rows, ragged

ROUNDS = 5  # in each of which both forms are timed in turn
REPLAY_S, MOST_CALLS = 0.002, 32  # of one graph: its launch is then a small share of its time
INSTANT_S = 1e-9  # no call takes less
Run = Callable[[], object]
End = Literal["right", "wrong", "crashes", "hangs", ""]
Seconds = Annotated[float, Field(gt=0)]


@dataclass(frozen=True)
class Request:
    """The kernel to prove.  package: that of the op.  usual: the form that the kernel would replace.
    inputs: the cell's own, on their device.  autocast: its dtype where it is on.  limit: seconds after which
    SIGALRM ends the proof.  trained: for each input, whether `main` makes it require a gradient, which the
    requesting process may not do inside torch.func.
    """

    package: str
    kernel: str
    usual: str
    inputs: list[Any]
    autocast: torch.dtype | None
    limit: int
    trained: Sequence[bool] = ()

    @property
    def device(self) -> str:
        """Return the kind of device that the inputs are on."""
        return self.inputs[0].device.type


@dataclass(frozen=True)
class Answer:
    """The result of a proof.  end: right, wrong, crashes or hangs; "": nothing is known of the kernel, for a
    reason that is not its own.  why: the reason, if the end is not right.  error, bound: of the output or
    gradient (`worst`) that is nearest to its bound, or farthest past it.  seconds, usual_seconds: of a call,
    with gradients where the op is trained.
    """

    end: End
    why: str = ""
    worst: str = ""
    error: float = 0.0
    bound: float = 0.0
    seconds: Seconds | None = None
    usual_seconds: Seconds | None = None


def compared_and_timed(request: Request) -> Answer:
    """Compare the kernel with its definition and, where it is right, time it beside the usual form."""
    op = import_module(request.package).OP
    definition = op.implementation("reference")
    try:
        cases = [(inputs, truth(definition, inputs)) for inputs in _cases(op, request)]
        usual = _call_of(op.implementation(request.usual), request.inputs)
        usual()
    except Exception as error:  # of the definition or the card, so it says nothing of the kernel
        return Answer("", _described(error))
    try:
        kernel = op.implementation(request.kernel)
        answer = compared(kernel, cases, request.autocast)
        if answer.end != "right":
            return answer
        ours, theirs = timed([_call_of(kernel, request.inputs), usual], request.device)
    except torch.OutOfMemoryError as error:
        return Answer("", _described(error))
    except Exception as error:
        return Answer("crashes", _described(error))
    return Answer("right", "", answer.worst, answer.error, answer.bound, ours, theirs)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)[:200]}"


def _cases(op: Any, request: Request) -> Iterator[list[Any]]:
    """Yield a few rows at the cell's own sizes, then at a length that no block divides, if the kernel can."""
    sized = getattr(import_module(request.package), op.name)
    yield (few := few_rows(sized, request.inputs))
    shorter = ragged(sized, few)
    if shorter is not None and op.module(request.kernel).unfit(*shorter) is None:
        yield shorter


def compared(
    kernel: Callable[..., Any], cases: Sequence[tuple[list[Any], Truth]], dtype: torch.dtype | None
) -> Answer:
    """Compare in memory that is NaN until written, then check that two ordinary calls give the same bits."""
    with poisoned():
        held = [one for inputs, true in cases for one in distances(kernel, true, inputs, dtype)]
    worst = max(held, key=lambda one: one.error / one.bound if one.error == one.error else float("inf"))
    numbers = worst.name, worst.error, worst.bound
    if not all(one.near for one in held):
        why = f"{worst.name} is {worst.error:.1e} from the definition, at most {worst.bound:.1e} is allowed"
        return Answer("wrong", why, *numbers)
    if not all(same_bits_twice(kernel, inputs) for inputs, _ in cases):
        return Answer("wrong", "a second call gives other bits", *numbers)
    return Answer("right", "", *numbers)


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill new memory with NaN (`torch.utils.deterministic`), so that it holds no earlier, right result."""
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


def _call_of(function: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """Return a call that gives the outputs, and the gradients of what is trained."""
    if any(map(requires_gradient, inputs)):
        upstreams = [u.float() for u in upstreams_of(function, inputs)]  # cast here, so that no cast is timed
        return lambda: results(function, inputs, upstreams)
    return torch.no_grad()(lambda: function(*inputs))


def timed(runs: Sequence[Run], device: str) -> list[float]:
    """Return the median seconds of each run, timed in turn; in CUDA graphs if a card can capture them all."""
    for run in runs:
        run()
    clocks = [partial(_seconds, run, device) for run in runs]
    if device == "cuda":
        try:
            clocks = [captured(run) for run in runs]
        except RuntimeError:  # one run waits for the device, so neither is timed in a graph
            torch.cuda.synchronize()
    times = [[clock() for clock in clocks] for _ in range(ROUNDS)]
    return [max(INSTANT_S, statistics.median(each)) for each in zip(*times, strict=True)]


def _seconds(run: Run, device: str) -> float:
    _wait_for(device)
    began = time.perf_counter()
    run()
    _wait_for(device)
    return time.perf_counter() - began


def _wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def captured(run: Run, calls: int | None = None) -> Callable[[], float]:
    """Return a clock: the seconds of a call in a CUDA graph of `calls`; None: of as many as last REPLAY_S."""
    if calls is None:
        one = captured(run, 1)
        one()
        calls = max(1, min(MOST_CALLS, int(REPLAY_S / one()) + 1))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph, usual = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, stream=side):
            for _ in range(calls):
                run()
    finally:
        torch.cuda.set_stream(usual)  # torch does not restore it where a capture fails
    return partial(_replayed, graph, calls)


def _replayed(graph: Any, calls: int) -> float:
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    graph.replay()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1000 / calls


def answer_to(request: Request) -> Answer:
    """Prove the kernel under the autocast that the cell has."""
    device, dtype = request.device, request.autocast
    with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
        answer = compared_and_timed(request)
        if answer.end == "right":
            _wait_for(device)  # an error on the card may be reported late
    return answer


def main(request_file: Path, answer_file: Path) -> None:
    """Answer the request of the process that started this one."""
    request: Request = torch.load(request_file, weights_only=False)
    signal.alarm(request.limit)
    for x in compress(request.inputs, request.trained):
        x.requires_grad_()
    answer = answer_to(request)
    part = answer_file.with_suffix(".part")
    part.write_text(json.dumps(vars(answer)))
    part.replace(answer_file)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
