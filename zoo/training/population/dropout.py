"""Apply dropout in a population: each member draws the same noise as if it trained alone."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from zoo.kernels.common.folding import members_first


class Draws:
    """The members' random streams.  Call `begin` in each step; later draws continue a member's stream."""

    def __init__(self) -> None:
        self._seeds: list[int] = []
        self._states: list[Tensor | None] = []

    def begin(self, seeds: Sequence[int]) -> None:
        self._seeds, self._states = list(seeds), [None] * len(seeds)

    def noise(self, like: Tensor, p: float) -> Tensor:
        """Return the factors [P ...] by which F.dropout multiplies each member's part of `like`.

        RuntimeError: in a CUDA graph, which would repeat the members' seeds of the recorded step.
        """
        if like.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("each member's own dropout is seeded within the step")
        generator = torch.default_generator  # from which torch's own dropout draws
        if like.is_cuda:
            generator = torch.cuda.default_generators[like.device.index or 0]
        drawn = []
        for i, part in enumerate(like):
            state = self._states[i]
            generator.manual_seed(self._seeds[i]) if state is None else generator.set_state(state)
            drawn.append(F.dropout(torch.ones_like(part), p))
            self._states[i] = generator.get_state()
        return torch.stack(drawn)


class DropoutApart(nn.Dropout):
    """nn.Dropout that under vmap draws for each member from its own stream."""

    draws: Draws

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        return input * _Noise.apply(input, self.p, self.draws)


def draw_apart(model: nn.Module, draws: Draws) -> None:
    """Make every nn.Dropout of the model a DropoutApart, in place."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = DropoutApart
            module.draws = draws  # pyright: ignore[reportArgumentType]


class _Noise(Function):
    @staticmethod
    def forward(x: Tensor, p: float, draws: Draws) -> Tensor:  # pyright: ignore
        return F.dropout(torch.ones_like(x), p)  # outside vmap: as for a lone cell

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *unused: Tensor | None) -> tuple[None, None, None]:  # pyright: ignore
        return None, None, None

    @staticmethod
    def vmap(  # pyright: ignore[reportIncompatibleMethodOverride]
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, p: float, draws: Draws
    ) -> tuple[Tensor, int]:
        like = members_first(info.batch_size, in_dims[0], x)
        return draws.noise(like.detach(), p), 0
