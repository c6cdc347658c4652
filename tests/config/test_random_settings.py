"""Laws of zoo.mixers.laws, briefly, under settings that nobody chose: see `tests.random_settings`."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies
from torch import Tensor
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from tests.random_settings import built, drawn
from tests.registry import cases
from zoo.mixers.base import Mixer
from zoo.mixers.cases import Case, longest, mixer_yaml
from zoo.mixers.cases import settings as settings_of
from zoo.mixers.laws import (
    Subject,
    elements,
    gradients_are_finite_and_every_parameter_is_used,
    in_parts,
    is_real,
    selects,
    the_past_does_not_move_when_the_future_does,
)
from zoo.mixers.size_formula import evaluate

NAMES = sorted({case.name for case in cases()})
LENGTH = 29  # prime
FEW, MORE, MANY = 6, 12, 40  # settings of each mixer that are not refused
Check = Callable[[Case, Mixer, int], None]


@pytest.mark.parametrize("name", NAMES)
def test_random_settings_obey_the_laws(name: str):
    try_settings(name, FEW, obeys)


@pytest.mark.parametrize("name", NAMES)
def test_the_formula_of_the_state_holds_for_random_settings(name: str):
    try_settings(name, MORE, is_as_the_formula_says)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_random_settings_obey_the_laws(name: str):
    try_settings(name, MANY, obeys)


def try_settings(name: str, number: int, check: Check) -> Counter[str]:
    """Draws until `number` settings were taken; what was refused, in one line, is counted."""
    count: Counter[str] = Counter()

    @settings(
        max_examples=number,
        phases=[Phase.generate],  # a failure is a few changes of a yaml already
        report_multiple_bugs=False,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn(name), strategies.integers(1, LENGTH - 2))
    def each(case: Case, cut: int) -> None:
        mixer, refusal = built(case)
        count["tried" if mixer else "refused"] += 1
        assert "\n" not in refusal
        assume(mixer is not None)
        check(case, mixer, cut)

    each()
    assert count["tried"] >= number
    return count


def is_as_the_formula_says(case: Case, mixer: Mixer, cut: int) -> None:
    del cut
    formula = mixer_yaml(case.name, case.folder)["about"].get("state")
    for n in (n for n in (*range(1, 40), 64, 1000) if formula is not None and n <= longest(case)):
        assert evaluate(formula, mixer, n) == mixer.state_size(n).resident, f"after {n}"


def obeys(case: Case, mixer: Mixer, cut: int) -> None:
    width, length = settings_of(case)["d_model"], min(LENGTH, longest(case))
    subject = Subject(case)
    subject.mixer = mixer
    for law in (
        the_past_does_not_move_when_the_future_does,
        gradients_are_finite_and_every_parameter_is_used,
    ):
        assert next(law(subject), None) is None, law.__name__
    x = torch.randn(1, length, width, dtype=torch.float64, generator=rng(0))
    if mixer.exact_decode:
        pieces_are_the_whole(mixer, x, min(cut, length - 2))
    the_past_matters(mixer, x[:, :-1], width)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def pieces_are_the_whole(mixer: Mixer, x: Tensor, cut: int) -> None:
    y, state = in_parts(mixer, x, [cut, cut + 1])
    assert elements(state) == mixer.state_size(x.shape[1]).resident, f"held after {x.shape[1]} tokens"
    assert torch.allclose(y, mixer(x), rtol=1e-8, atol=1e-9), "pieces are not the whole"


def the_past_matters(mixer: Mixer, x: Tensor, width: int) -> None:
    """Each tensor of the state reaches an output to come, but for those that act through a choice alone."""
    _, state = mixer.extend(x)
    paths, structure = tree_flatten_with_path(state)
    parts = [p.detach().requires_grad_() if is_real(p) else p for _, p in paths]
    live = {path[-1].name: p for (path, _), p in zip(paths, parts, strict=True) if is_real(p)}
    later = torch.randn(1, 16, width, dtype=x.dtype, generator=rng(2))
    y, _ = mixer.extend(later, tree_unflatten(parts, structure))
    grads = torch.autograd.grad(y.square().sum(), list(live.values()), allow_unused=True) if live else ()
    for name, grad in zip(live, grads, strict=True):
        alive = grad is not None and (grad != 0).any()
        assert alive or name in selects(state), f"nothing that comes reads {name}"
