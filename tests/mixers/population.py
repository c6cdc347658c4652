"""Two members of a population against each alone: what one outer backward through vmap must give."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from zoo.mixers.base import Mixer


def check_population(make: Callable[[], Mixer], x: Tensor) -> None:
    """Outputs and gradients of two stacked members equal those of each alone; `x` is [2 B T D]."""
    members = [make().double() for _ in range(2)]
    params, buffers = stack_module_state(members)
    params = {name: p.detach().requires_grad_() for name, p in params.items()}

    def run(p: dict[str, Tensor], b: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return functional_call(members[0], (p, b), (inputs,))

    y = vmap(run)(params, buffers, x)
    y.square().sum().backward()
    for i, member in enumerate(members):
        alone = member(x[i])
        torch.testing.assert_close(y[i], alone, rtol=1e-10, atol=1e-10)
        alone.square().sum().backward()
        for name, p in member.named_parameters():
            torch.testing.assert_close(params[name].grad[i], p.grad, rtol=1e-8, atol=1e-10, msg=name)
