"""A subject's call, with its backward pass or without, on tensors with numbers or without memory."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor

from zoo.bench.op_subject import Subject
from zoo.kernels.choice import TRITON, ops

Call = Callable[[], list[Tensor]]


def call_of(subject: Subject, backward: bool, device: str, dtype: torch.dtype) -> Call:
    """Our Triton form on the same inputs each time; gives its outputs, and with `backward` all gradients."""
    (op,) = (op for op in ops() if op.name == subject.op)
    function, inputs = op.implementation(TRITON), _inputs(subject, backward, device, dtype)
    upstream: list[Tensor] = []

    def call() -> list[Tensor]:
        with torch.set_grad_enabled(backward):
            outputs = _tensors(function(*inputs))
            if not backward:
                return outputs
            upstream[:] = upstream or [_numbers(y.shape, device, y.dtype, seed=1) for y in outputs]
            wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
            grads = torch.autograd.grad(outputs, wanted, upstream, allow_unused=True)
        return [*(y.detach() for y in outputs), *_tensors(grads)]

    return call


def _inputs(subject: Subject, backward: bool, device: str, dtype: torch.dtype) -> list[Any]:
    seeds = count(2)

    def draw(*shape: int) -> Tensor:
        return _numbers(shape, device, dtype, next(seeds))

    return [
        x.detach().requires_grad_(backward) if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in subject.inputs(draw)
    ]


def _numbers(shape: tuple[int, ...], device: str, dtype: torch.dtype, seed: int) -> Tensor:
    if device == "meta":
        return torch.empty(shape, device=device, dtype=dtype)
    rng = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=rng, device=device).to(dtype)


def _tensors(found: Any) -> list[Tensor]:
    return [found] if isinstance(found, Tensor) else [y for y in found if isinstance(y, Tensor)]
