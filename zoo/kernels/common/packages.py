"""Helpers for the adapters of other packages' kernels: checks of inputs, and rules for stacked members.

A package's autograd function has no batching rule.  An adapter is therefore registered as an operator that
has one: stacked members become a larger batch, as everywhere (folding.py), or more channels.  Adapters switch
off pyright's reports on calls of a package, because the package may not be installed and wraps its functions
in untyped ones.
"""

import importlib
from collections.abc import Callable, Collection, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from zoo.kernels.common.folding import all_members_first, fold, in_front, unfold

Form = TypeVar("Form", bound=Callable[..., Any])
HALF = (torch.float16, torch.bfloat16)
_LIBRARY = torch.library.Library("zoo", "FRAGMENT")


def lifted(*, unbatched: Collection[int] = (), by_channel: bool = False) -> Callable[[Form], Form]:
    """Return a decorator that makes a function an operator with a vmap rule; autograd sees through it.

    unbatched: positions of the arguments without a batch; members that differ in them run one by one.
    by_channel: the function computes each channel (the last dimension of every tensor) by itself.
    """

    def decorate(function: Form) -> Form:
        name, schema = function.__name__, torch.library.infer_schema(function, mutates_args=())
        _LIBRARY.define(name + schema)
        _LIBRARY.impl(name, function, "CompositeImplicitAutograd")
        operator = getattr(torch.ops.zoo, name).default
        rule = _more_channels if by_channel else partial(_more_of_the_batch, unbatched=unbatched)
        torch.library.register_vmap(operator, partial(rule, operator), lib=_LIBRARY)
        return cast(Form, wraps(function)(lambda *inputs: operator(*inputs)))

    return decorate


def _more_of_the_batch(
    operator: Callable[..., Any],
    info: Any,
    in_dims: Sequence[int | None],
    *inputs: Any,
    unbatched: Collection[int],
) -> tuple[Any, Any]:
    if any(in_dims[i] is not None for i in unbatched if i < len(in_dims)):
        outputs = _stacked([operator(*_member(i, in_dims, inputs)) for i in range(info.batch_size)])
    else:
        whole = operator(*fold(info.batch_size, in_dims, inputs, unbatched))
        outputs = unfold(info.batch_size, whole)
    return outputs, in_front(outputs)


def _more_channels(
    operator: Callable[..., Tensor], info: Any, in_dims: Sequence[int | None], *inputs: Any
) -> tuple[Tensor, int]:
    given = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
    first = all_members_first(info.batch_size, [in_dims[i] for i in given], [inputs[i] for i in given])
    side_by_side = {i: x.movedim(0, -2).flatten(-2) for i, x in zip(given, first, strict=True)}
    y = operator(*(side_by_side.get(i, x) for i, x in enumerate(inputs)))
    return y.unflatten(-1, (info.batch_size, -1)), y.ndim - 1


def _member(i: int, in_dims: Sequence[int | None], inputs: Sequence[Any]) -> list[Any]:
    return [x if dim is None else x.select(dim, i) for dim, x in zip(in_dims, inputs, strict=True)]


def _stacked(outputs: Sequence[Any]) -> Any:
    if isinstance(outputs[0], Tensor):
        return torch.stack(list(outputs))
    return tuple(torch.stack(parts) for parts in zip(*outputs, strict=True))


def off_device(package: str, x: Tensor) -> str | None:
    """Return why the package's kernels cannot run on this tensor; None: they can."""
    if x.device.type == "cuda":
        return None
    return f"{package} runs on a CUDA device, and the tensors are on {x.device.type}"


def not_half(package: str, *tensors: Tensor) -> str | None:
    """Return why a package that takes only half precision cannot take these dtypes; None: it can."""
    kinds = list(dict.fromkeys(x.dtype for x in tensors))
    if len(kinds) == 1 and kinds[0] in HALF:
        return None
    words = ", ".join(str(kind).removeprefix("torch.") for kind in kinds)
    return f"{package} takes bfloat16 or float16, and gets {words}: trainer.precision=bf16-mixed gives that"


def untrained_gates(*inputs: Tensor) -> str | None:
    """Return why fla cannot train with a decay for each head here; None: it can.

    On Hopper its backward pass is wrong with some versions of Triton, and fla says so only after tuning.
    """
    if not (inputs[0].is_cuda and torch.is_grad_enabled() and any(x.requires_grad for x in inputs)):
        return None
    module = importlib.import_module("fla.ops.common.chunk_o")
    here = [getattr(module, name, False) for name in ("IS_NVIDIA_HOPPER", "TRITON_ABOVE_3_4_0")]
    if all(here) and not getattr(module, "TRITON_ABOVE_3_7_1", True):
        return "fla's gradients of a decay a head are wrong on Hopper by Triton 3.4 to 3.7.0"
    return None


def too_wide(package: str, *tensors: Tensor) -> str | None:
    """Return why the package cannot take these tensors, if one of them is float64; None: none is."""
    wide = next((x.dtype for x in tensors if x.dtype.itemsize > 4), None)
    return f"{package} takes float32 and half precisions, and a tensor is {wide}" if wide else None
