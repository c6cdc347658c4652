"""Time alternatives in turn, so that other load on the machine falls on all of them alike."""

import math
import timeit
from collections.abc import Callable, Mapping
from functools import partial
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

from zoo.bench.machine import Machine
from zoo.kernels.common.proof import captured as recorded

LEAST_S, MOST_CALLS = 0.01, 1000  # of a repeat on a device: its launch and wait are then a small share


def in_turn(
    contenders: Mapping[str, Callable[[], object]], machine: Machine, rounds: int, captured: bool = False
) -> dict[str, list[float]]:
    """Return name -> the seconds of a call in each round; contenders alternate (ABAB...) after a warm-up.

    On a device a repeat is as many queued calls as last 10 ms, MOST_CALLS at most.  captured: use a CUDA
    graph where there is a device and the call can be captured: this gives the kernels' time without Python's.
    """
    clocks = {name: _clock(run, machine, captured) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, clock in clocks.items():
            times[name].append(clock())
    return times


def _clock(run: Callable[[], object], machine: Machine, wanted: bool) -> Callable[[], float]:
    _seconds(run, machine, 1)  # to warm up
    if machine.kind != "cuda":
        return partial(_seconds, run, machine, 1)
    calls = min(MOST_CALLS, math.ceil(LEAST_S / _seconds(run, machine, 1)))
    if wanted:
        try:
            return recorded(run)
        except RuntimeError:  # the call waits for the device, which a graph cannot record
            torch.cuda.synchronize()
    return partial(_seconds, run, machine, calls)


def peak_bytes(run: Callable[[], object], machine: Machine) -> int:
    """Return the most bytes that torch's allocator holds during a call, beyond those held before it."""
    if machine.kind != "cuda":
        return _peak_on_cpu(run)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _peak_on_cpu(run: Callable[[], object]) -> int:
    """Return the peak of the running sum of all allocations and releases in the profiler's record."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    assert record.profiler is not None and record.profiler.kineto_results is not None
    events = record.profiler.kineto_results.events()
    sizes = [event.nbytes() for event in events if event.name() == "[memory]"]  # pyright: ignore
    return max(accumulate(sizes, initial=0))


def _seconds(run: Callable[[], object], machine: Machine, calls: int) -> float:
    return timeit.timeit(run, timer=machine.now, number=calls) / calls
