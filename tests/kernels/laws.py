"""The laws of mixers that a kernel could break, through Triton: in its interpreter, or on a card.

As tests/mixers/test_mixer_laws.py, in float32, and measured against the definition in float64: what Triton
gives is at most a few times as far from it as what torch gives.
"""

from collections.abc import Callable
from contextlib import contextmanager
from copy import deepcopy
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from tests.registry import cases
from zoo.kernels.choice import TRITON, Refused, kernels, names_with
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, build
from zoo.mixers.laws import in_parts

FACTOR, FLOOR = 8, 4e-6  # allowed: FACTOR times torch's error, and FLOOR of the largest number


@cache
def served() -> list[Case]:
    """Return the cases whose mixer calls an op that has a Triton form, in training or token by token."""
    return [case for case in cases() if ops_of(case)]


@cache
def ops_of(case: Case) -> frozenset[str]:
    """Return the ops with a Triton form that the mixer calls."""
    mixer = build(case)
    with torch.no_grad(), kernels("auto") as used:
        _, state = mixer.extend(tokens(8))
        mixer.extend(tokens(1), state)
        mixer(tokens(8))
    return frozenset(used.ran) & set(names_with(TRITON))


def tokens(length: int, seed: int = 0, batch: int = 1) -> Tensor:
    rng = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randn(batch, length, WIDTH, dtype=torch.float64, generator=rng)


class Trial:
    """A mixer in float64 on the CPU, in float32 through torch, and in float32 through Triton on a device."""

    def __init__(self, case: Case, device: str, seed: int = 0) -> None:
        self.exact, self.device = build(case, seed), device
        self.plain, self.ours = deepcopy(self.exact).float(), deepcopy(self.exact).float().to(device)

    def near(self, run: Callable[[Mixer, Tensor], list[Tensor]], x: Tensor) -> None:
        """Assert that what `run` gives through Triton is near its result in float64."""
        true, torchs = run(self.exact, x), run(self.plain, x.float())
        with through_triton():
            ours = run(self.ours, x.float().to(self.device))
        for i, (mine, other, right) in enumerate(zip(ours, torchs, true, strict=True)):
            error, allowed = ((y.double().cpu() - right).abs().max() for y in (mine, other))
            bound = FACTOR * allowed + FLOOR * right.abs().max()
            assert error <= bound, (i, float(error), float(allowed), float(right.abs().max()))


@contextmanager
def through_triton():
    """Choose Triton inside; skip the test where a kernel refuses these sizes, and where none was called."""
    with kernels(TRITON) as choice:
        try:
            yield
        except Refused as error:
            pytest.skip(str(error))
    if not any(TRITON in names for names in choice.ran.values()):
        pytest.skip("this way of computing calls no op that has a Triton form")


CUTS = {18: [7, 16, 17], 150: [1, 33, 130, 149]}  # of a sequence of that length, in parts


@torch.no_grad()
def parts_make_the_whole(case: Case, device: str, length: int) -> None:
    """Compare a sequence in one go with its parts, the last ones of one token."""
    x, cuts = tokens(length), CUTS[length]
    Trial(case, device).near(lambda m, x: [m(x), *in_parts(m, x, cuts)[0].tensor_split(cuts, dim=1)], x)


def gradients_are_those_of_the_definition(case: Case, device: str, length: int) -> None:
    """Compare the gradients of every parameter and of the input, through a state halfway as well."""

    def run(mixer: Mixer, x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        mixer.zero_grad()
        parts, _ = in_parts(mixer, x, [length // 2])
        (mixer(x).square().mean() + 2 * parts.square().mean()).backward()
        grads = [p.grad for p in (x, *mixer.parameters()) if p.requires_grad]
        assert all(grad is not None for grad in grads)
        return [grad for grad in grads if grad is not None]

    Trial(case, device).near(run, tokens(length))


@torch.no_grad()
def the_past_stands_still(case: Case, device: str, length: int) -> None:
    """Assert that later inputs, however large, change no earlier output."""
    trial, x = Trial(case, device), tokens(length).float().to(device)
    cut = length // 2 + 1
    other = torch.cat([x[:, :cut], 1e4 * x[:, cut:]], dim=1)
    with through_triton():
        one, two = trial.ours(x)[:, :cut], trial.ours(other)[:, :cut]
    assert torch.allclose(one, two, rtol=1e-5, atol=1e-6) or not trial.ours.causal


def members_train_as_they_would_alone(case: Case, device: str, length: int) -> None:
    """Compare the outputs and gradients of two stacked members with those of each alone."""
    members = [Trial(case, device, seed).ours for seed in (1, 2)]
    x = torch.stack([tokens(length, seed).float().to(device) for seed in (1, 2)])
    weights, buffers = stack_module_state(members)
    with through_triton():
        together = vmap(lambda w, b, x: functional_call(members[0], (w, b), (x,)))(weights, buffers, x)
        together.square().mean().backward()
        alone = [member(inputs) for member, inputs in zip(members, x, strict=True)]
        (torch.stack(alone).square().mean()).backward()
    torch.testing.assert_close(together, torch.stack(alone), rtol=1e-4, atol=1e-5)
    for name, stacked in weights.items():
        for i, member in enumerate(members):
            alone_grad = member.get_parameter(name).grad
            if alone_grad is not None:
                assert stacked.grad is not None
                torch.testing.assert_close(stacked.grad[i], alone_grad, rtol=1e-3, atol=1e-5)


LAWS = (
    parts_make_the_whole,
    gradients_are_those_of_the_definition,
    the_past_stands_still,
    members_train_as_they_would_alone,
)
