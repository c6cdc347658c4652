"""The ops by themselves: every implementation that runs here, forward and backward, beside the floor.

The floor is the larger of two bounds: the products that the op needs at least (the cheaper of its forms, the
backward pass twice the forward) at the rate of a large product in the dtype of the inputs, and the bytes of
its inputs, outputs and their gradients, each moved once, at the speed of a copy.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo.bench.flex import flex
from zoo.bench.machine import Floor, Machine
from zoo.bench.rows import Row, compared, timed
from zoo.bench.timing import in_turn, peak_bytes
from zoo.common.checks import one_line
from zoo.kernels.cases import DTYPE, Case
from zoo.kernels.choice import Op, ops
from zoo.kernels.common.agreement import requires_gradient

Run = Callable[[], object]


def op_rows(case: Case, machine: Machine, rounds: int) -> Iterator[list[Row]]:
    """Time the op forward, and where it is trained through, forward and backward together."""
    for backward in (False, True) if case.trained else (False,):
        inputs = case.draw(machine.kind, backward)
        runs = dict(_running(case, inputs, backward))
        if runs:
            yield _measured(case, inputs, backward, runs, machine, rounds)


def implementations(case: Case, inputs: Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """Return each implementation that can take these inputs; the form in torch for many tokens comes last."""
    by_name = {op.name: op for op in ops()}
    runs: dict[str, Callable[..., Any]] = {}
    for label, (name, taken) in case.rivals.items():
        rivals = _of(by_name[name], taken(*inputs), definition=False) if name in by_name else {}
        runs |= {f"{label}: {how}": _through(run, taken) for how, run in rivals.items()}
    if inputs[0].is_cuda:
        runs |= _flexible(case)
    return runs | _of(by_name[case.op], inputs, case.definition)


def _flexible(case: Case) -> dict[str, Callable[..., Any]]:
    """Return FlexAttention in place of each attention; it can be trained on a CUDA device only."""
    calls = {f"{label}: ": taken for label, (op, taken) in case.rivals.items() if op == "attention"}
    calls |= {"": lambda *inputs: inputs} if case.op == "attention" else {}
    return {f"{at}FlexAttention": _through(lambda *x: flex(*x[:4]), taken) for at, taken in calls.items()}


def _of(op: Op, inputs: Sequence[Any], definition: bool) -> dict[str, Callable[..., Any]]:
    forms = [name for name in op.forms if definition or name != "reference" or len(op.forms) == 1]
    refused = {name: op.refusal(name, *inputs) for name in (*op.others, *forms)}
    for name, reason in refused.items():
        if reason is not None and op.missing(name) is None:
            print(f"not timed: {op.name}, {name}: {reason}", file=sys.stderr)
    return {name: op.implementation(name) for name, reason in refused.items() if reason is None}


def _through(run: Callable[..., Any], taken: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    return lambda *inputs: run(*taken(*inputs))


def _running(case: Case, inputs: Sequence[Any], backward: bool) -> Iterator[tuple[str, Run]]:
    """Yield each implementation that runs; one that fails is reported, and the others are still timed."""
    for name, function in implementations(case, inputs).items():
        run = trained(function, inputs) if backward else torch.no_grad()(partial(function, *inputs))
        try:
            run()
        except Exception as error:
            reason = one_line(error)[:200]
            print(f"not timed: {case.name}, {name}: {type(error).__name__}: {reason}", file=sys.stderr)
            continue
        yield name, run


def trained(function: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """Return a call that computes the first output and the gradients of all inputs that require one."""
    wanted = [x for x in inputs if requires_gradient(x)]
    upstream: list[Tensor] = []

    def run() -> object:
        y = function(*inputs)
        y = y if isinstance(y, Tensor) else y[0]
        upstream[:] = upstream or [torch.randn_like(y)]
        return torch.autograd.grad(y, wanted, upstream, allow_unused=True)

    return run


def _measured(
    case: Case, inputs: Sequence[Any], backward: bool, runs: Mapping[str, Run], machine: Machine, rounds: int
) -> list[Row]:
    times, usual = in_turn(runs, machine, rounds, captured=True), list(runs)[-1]
    floor = bound(case, inputs, backward, machine)
    peaks = {name: peak_bytes(run, machine) for name, run in runs.items()}
    measured = timed(times, case.tokens, lambda _: floor, peaks)
    words = f"{case.words} {str(DTYPE[machine.kind]).removeprefix('torch.')}"
    sizes = f"{words} forward and backward" if backward else f"{words} forward"
    return compared("ops", case.name, sizes, "tokens", measured, usual, machine)


def bound(case: Case, inputs: Sequence[Any], backward: bool, machine: Machine) -> Floor:
    """Return the floor: the larger of the times that the op's least products and its bytes take."""
    given = sum(x.numel() * x.element_size() for x in inputs if isinstance(x, Tensor))
    made = case.outputs * DTYPE[machine.kind].itemsize + 4 * case.states
    moved = 3 * given + 2 * made if backward else given + made
    flops = 3 * case.flops if backward else case.flops
    return max(machine.products(flops, DTYPE[machine.kind]), machine.moved(moved))
