"""Refuse the derivative of a hand-written backward pass, which would be wrong without a word."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Tensors = tuple[Tensor | None, ...]


class _Refusing(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *tensors: Tensor | None) -> Tensors:  # pyright: ignore
        """Pass the first `count` on, which are gradients; the others are what they were computed from."""
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensors) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Tensors:  # pyright: ignore
        """Refuse second derivatives."""
        raise NotImplementedError("this kernel has first derivatives only: kernels=reference has all.")


def first_order(backward: Callable[..., Tensors]) -> Callable[..., Tensors]:
    """Make a `backward` of autograd whose gradients cannot be differentiated again.

    torch's once_differentiable does not see that a gradient depends on saved tensors.
    """

    @wraps(backward)
    def once(*given: Any) -> Tensors:
        with torch.no_grad():
            grads = backward(*given)
        if not torch.is_grad_enabled():
            return grads
        ctx = given[isinstance(given[0], type)]  # a class method's first argument is its class
        incoming = (argument for argument in given if isinstance(argument, Tensor))
        return _Refusing.apply(len(grads), *grads, *ctx.saved_tensors, *incoming)  # pyright: ignore

    return once
