"""The ops by themselves: every implementation that runs here, forward and backward, beside the floor.

The floor is the larger of two bounds: the products that the op needs at least (the cheaper of its forms, the
backward pass twice the forward) at the rate of a large product in the dtype of the inputs, and the bytes of
its inputs, outputs and their gradients, each moved once, at the speed of a copy.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.bench.layers import larger
from zoo.bench.machine import Machine
from zoo.bench.op_subject import Subject
from zoo.bench.rows import Floor, Row, Timed, compared
from zoo.bench.timing import in_turn, peak_bytes
from zoo.checks import one_line
from zoo.kernels.choice import Op, ops

DTYPE = {"cpu": torch.float32, "cuda": torch.bfloat16}
Run = Callable[[], object]


def op_rows(subject: Subject, machine: Machine, rounds: int) -> list[Row]:
    """Forward; and where it is trained through, forward and backward together."""
    rows = []
    for backward in (False, True) if subject.trained else (False,):
        inputs = drawn(subject, machine.kind, backward)
        runs = dict(_that_run(subject, inputs, backward))
        if runs:
            rows += _measured(subject, inputs, backward, runs, machine, rounds)
    return rows


def drawn(subject: Subject, kind: str, backward: bool = False, dtype: torch.dtype | None = None) -> list[Any]:
    """The subject's inputs, the same at every call.  dtype: None, that of the device."""
    rng = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng).to(kind, dtype or DTYPE[kind])

    inputs = subject.inputs(draw)
    return [
        x.detach().requires_grad_(backward) if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in inputs
    ]


def implementations(subject: Subject, inputs: Sequence[Any]) -> dict[str, Callable[..., Any]]:
    """What can take these inputs here; the last form in torch, which is usual for many tokens, comes last."""
    by_name = {op.name: op for op in ops()}
    found: dict[str, Callable[..., Any]] = {}
    for label, (name, taken) in subject.rivals.items():
        own = _of(by_name[name], taken(*inputs), definition=False) if name in by_name else {}
        found |= {f"{label}: {how}": _through(run, taken) for how, run in own.items()}
    if inputs[0].is_cuda:
        found |= subject.on_a_device
    return found | _of(by_name[subject.op], inputs, subject.definition)


def _of(op: Op, inputs: Sequence[Any], definition: bool) -> dict[str, Callable[..., Any]]:
    forms = [name for name in op.forms if definition or name != "reference" or len(op.forms) == 1]
    refused = {name: op.refusal(name, *inputs) for name in (*op.others, *forms)}
    for name, reason in refused.items():
        if reason is not None and op.missing(name) is None:
            print(f"not timed: {op.name}, {name}: {reason}", file=sys.stderr)
    return {name: op.implementation(name) for name, reason in refused.items() if reason is None}


def _through(run: Callable[..., Any], taken: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    return lambda *inputs: run(*taken(*inputs))


def _that_run(subject: Subject, inputs: Sequence[Any], backward: bool) -> Iterator[tuple[str, Run]]:
    """What fails is said and left out: one kernel's failure is no reason to lose the others' times."""
    for name, function in implementations(subject, inputs).items():
        run = trained(function, inputs) if backward else _forward(function, inputs)
        try:
            run()
        except Exception as error:
            said = one_line(error)[:200]
            print(f"not timed: {subject.name}, {name}: {type(error).__name__}: {said}", file=sys.stderr)
            continue
        yield name, run


def _forward(function: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    def run() -> object:
        with torch.no_grad():
            return function(*inputs)

    return run


def trained(function: Callable[..., Any], inputs: Sequence[Any]) -> Run:
    """The first output, and the gradients of all inputs."""
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    upstream: list[Tensor] = []

    def run() -> object:
        y = function(*inputs)
        y = y if isinstance(y, Tensor) else y[0]
        upstream[:] = upstream or [torch.randn_like(y)]
        return torch.autograd.grad(y, wanted, upstream, allow_unused=True)

    return run


def _measured(
    subject: Subject,
    inputs: Sequence[Any],
    backward: bool,
    runs: Mapping[str, Run],
    machine: Machine,
    rounds: int,
) -> list[Row]:
    times, usual = in_turn(runs, machine, rounds, captured=True), list(runs)[-1]
    floor = bound(subject, inputs, backward, machine)
    timed = [
        Timed(
            implementation=name,
            times=times[name],
            units=subject.tokens,
            floor=floor,
            peak_bytes=peak_bytes(run, machine),
        )
        for name, run in runs.items()
    ]
    words = f"{subject.words} {str(DTYPE[machine.kind]).removeprefix('torch.')}"
    sizes = f"{words} forward and backward" if backward else f"{words} forward"
    return compared("ops", subject.name, sizes, "tokens", timed, usual, machine)


def bound(subject: Subject, inputs: Sequence[Any], backward: bool, machine: Machine) -> Floor:
    given = sum(x.numel() * x.element_size() for x in inputs if isinstance(x, Tensor))
    made = subject.outputs * DTYPE[machine.kind].itemsize + 4 * subject.states
    moved = 3 * given + 2 * made if backward else given + made
    flops = 3 * subject.flops if backward else subject.flops
    return larger(machine.products(flops, DTYPE[machine.kind]), machine.moved(moved))
