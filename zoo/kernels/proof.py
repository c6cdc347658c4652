"""One kernel held against its definition on a card, and timed: python -m zoo.kernels.proof REQUEST ANSWER

A process of its own (`zoo.kernels.proving` starts it), because a kernel may take its process with it.  Both
files are made by that module and by this one, in a folder that only the user can enter.
"""

import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.checks import one_line
from zoo.kernels.agreement import Truth, distances, results, same_bits_twice, truth, upstreams_of
from zoo.kernels.choice import REFERENCE, Op
from zoo.kernels.proof_request import Answer, Request
from zoo.kernels.ragged import few_rows, ragged

ROUNDS = 5  # of both forms in turn
REPLAY_S, MOST_CALLS = 0.002, 32  # calls in one graph: starting it then takes little of its time


def proved(request: Request) -> Answer:
    """Compared, and timed where it is right."""
    op: Op = import_module(request.package).OP
    definition = op.implementation(REFERENCE)
    try:
        cases = [(inputs, truth(definition, inputs)) for inputs in _cases(op, request)]
        usual = partial(_call, op.implementation(request.usual), request.inputs)
        usual()
    except Exception as error:  # the definition's, or the card's: no word on the kernel
        return Answer("", _said(error))
    try:
        kernel = op.implementation(request.kernel)
        answer = _compared(kernel, cases, request.autocast)
        if answer.end != "right":
            return answer
        ours, theirs = timed([partial(_call, kernel, request.inputs), usual], request.device)
    except torch.OutOfMemoryError as error:
        return Answer("", _said(error))
    except Exception as error:
        return Answer("crashes", _said(error))
    return Answer("right", "", answer.worst, answer.error, answer.bound, ours, theirs)


def _cases(op: Op, request: Request) -> Iterator[list[Any]]:
    """The cell's own sizes, of a few rows; and a length that no block divides, where the kernel takes it."""
    definition = op.forms[REFERENCE]
    yield (few := few_rows(definition, request.inputs))
    shorter = ragged(definition, few)
    if shorter is not None and op.module(request.kernel).unfit(*shorter) is None:
        yield shorter


def _compared(
    kernel: Callable[..., Any], cases: Sequence[tuple[list[Any], Truth]], dtype: torch.dtype | None
) -> Answer:
    """In memory that is NaN where nothing was written; then twice in memory as it comes."""
    found = []
    with poisoned():
        for inputs, true in cases:
            found += distances(kernel, true, inputs, dtype)
    worst = max(found, key=lambda one: one.error / one.bound if one.error == one.error else float("inf"))
    held = worst.name, worst.error, worst.bound
    if not all(one.near for one in found):
        why = f"{worst.name} is {worst.error:.1e} from the definition, at most {worst.bound:.1e} is allowed"
        return Answer("wrong", why, *held)
    if not all(same_bits_twice(kernel, inputs) for inputs, _ in cases):
        return Answer("wrong", "a second call gives other bits", *held)
    return Answer("right", "", *held)


@contextmanager
def poisoned() -> Iterator[None]:
    """New memory is NaN (`torch.utils.deterministic`), and not the right result that was there before."""
    asked = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(asked[0], warn_only=asked[1])


# seconds ---------------------------------------------------------------------------------------------------

Run = Callable[[], object]


def _call(function: Callable[..., Any], inputs: Sequence[Any]) -> object:
    """Its outputs, and the gradients of what is trained."""
    if any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        return results(function, inputs, _upstreams(function, inputs))
    with torch.no_grad():
        return function(*inputs)


_UPSTREAMS: dict[int, list[Tensor]] = {}


def _upstreams(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """Drawn once: nothing is copied to a device while it is timed."""
    if id(inputs) not in _UPSTREAMS:
        _UPSTREAMS[id(inputs)] = [u.float() for u in upstreams_of(function, inputs)]
    return _UPSTREAMS[id(inputs)]


def timed(runs: Sequence[Run], device: str) -> list[float]:
    """The median seconds of each, in turn; in captured graphs on a card, where all can be captured."""
    for run in runs:
        run()
    clocks = [partial(_seconds, run, device) for run in runs]
    if device == "cuda":
        try:
            clocks = [captured(run) for run in runs]
        except RuntimeError:  # one waits for the device: then neither goes through a graph
            torch.cuda.synchronize()
    times = [[clock() for clock in clocks] for _ in range(ROUNDS)]
    return [statistics.median(each) for each in zip(*times, strict=True)]


def _seconds(run: Run, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def captured(run: Run, calls: int | None = None) -> Callable[[], float]:
    """Seconds of a call in a CUDA graph of so many; None: as many as last a while."""
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
        torch.cuda.set_stream(usual)  # torch does not where a capture fails
    return partial(_replayed, graph, calls)


def _replayed(graph: Any, calls: int) -> float:
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    graph.replay()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1000 / calls


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)[:200]}"


def answered(request: Request) -> Answer:
    device, dtype = request.device, request.autocast
    with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
        answer = proved(request)
        if device == "cuda" and answer.end == "right":
            torch.cuda.synchronize()  # an error on the card may be late
    return answer


def main(asked: Path, told: Path) -> None:
    request: Request = torch.load(asked, weights_only=False)  # of the process that started this one
    signal.alarm(request.limit)
    answer = answered(request)
    part = told.with_suffix(".part")
    part.write_text(json.dumps(vars(answer)))
    part.replace(told)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
