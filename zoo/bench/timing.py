"""Timing alternatives in turn, so that what the machine does meanwhile falls on all of them."""

from collections.abc import Callable, Mapping

from zoo.bench.machine import Machine


def in_turn(
    contenders: Mapping[str, Callable[[], object]], machine: Machine, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each, ABAB..., after one round that warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, run in contenders.items():
            began = machine.now()
            run()
            if turn:
                times[name].append(machine.now() - began)
    return times
