"""Compiling choices ahead of their timing, in processes that need no card.

What Triton makes stays in its cache on disk, and what no card could use is known before anything runs.
"""

from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.gpu.calls import call_of
from benchmarks.gpu.choices import Knob, noted
from benchmarks.gpu.tuned import tuned
from benchmarks.kernels_offline import launches, read

Asked = list[tuple[Knob, Any]]  # each with its static choice


@dataclass(frozen=True)
class Order:
    """number: of `tuned(small)`.  value: of the knob."""

    number: int
    small: bool
    dtype: torch.dtype
    arch: int
    knob: Knob
    value: Any


def asked(number: int, small: bool, dtype: torch.dtype, arch: int) -> Asked:
    """The entries of the op's table that the call looks up; compiles the call as it is."""
    one = tuned(small)[number]
    forward, both = call_of(one.subject, False, "meta", dtype), call_of(one.subject, True, "meta", dtype)
    with launches(arch), noted(one.table) as before:
        forward()
    found = before
    if one.backward:
        with launches(arch), noted(one.table) as whole:
            both()
        found = {k: cut for k, cut in whole.items() if k.kernel is None or k not in before}
    return [*found.items(), *((knob, knob.value()) for knob in one.constants)]


def unfit(order: Order) -> str | None:
    """What keeps the choice from being launched, in words; None: nothing.  Compiles what it changes."""
    one = tuned(order.small)[order.number]
    call = call_of(one.subject, one.subject.trained, "meta", order.dtype)
    with launches(order.arch) as static:
        call()
    try:
        with launches(order.arch) as found, order.knob.at(order.value):
            call()
    except Exception as error:  # whatever a compiler says no with
        return f"does not compile: {type(error).__name__}"
    known = {id(made) for _, made, _ in static}
    return next(
        filter(None, (_wrong(one.op, *launch, order) for launch in found if id(launch[1]) not in known)), None
    )


def _wrong(op: str, name: str, made: Any, options: dict[str, Any], order: Order) -> str | None:
    from zoo.kernels.choice import TRITON, ops

    (module,) = (each.module(TRITON) for each in ops() if each.name == op)
    products = name not in module.WITHOUT_PRODUCTS
    compiled = read(op, name, "", str(order.dtype), made, options, order.arch, products)
    return compiled.wrong[0] if compiled.wrong else None
