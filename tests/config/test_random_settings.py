"""Laws of zoo.mixers.laws, briefly, under random settings.

The settings are drawn from what a mixer's yaml and its constructor allow. A setting has the type of its value
in the yaml, or of the constructor's annotation where that value is null. The words of a text setting are read
from the error message that refuses another.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hydra.utils import get_class
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies
from torch import Tensor
from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from tests.registry import FOLDER, cases
from zoo.config.arguments import parameters
from zoo.mixers import laws
from zoo.mixers.base import Mixer
from zoo.mixers.cases import Case, build, longest, mixer_yaml
from zoo.mixers.cases import settings as settings_of
from zoo.mixers.size_formula import evaluate
from zoo.mixers.state import held

WHOLE = (1, 2, 3, 4, 5, 6, 8, 12, 0)
WIDTHS = (8, 12, 24)  # of d_model, which the mixer's own settings are not about
LENGTHS = (48, 64, 1000)  # of max_len, which the laws' sequences must fit in
FACTORS = (1.0, 0.5, 3.0)


@strategies.composite
def drawn(draw: strategies.DrawFn, name: str) -> Case:
    """Draw one of the yaml's cases with one to four settings changed; the mixer may refuse them."""
    base, others = draw(strategies.sampled_from(spread(name)))
    names = strategies.sampled_from(sorted(others))
    keys = draw(strategies.lists(names, min_size=1, max_size=4, unique=True))
    return Case(name, base.changes | {key: draw(strategies.sampled_from(others[key])) for key in keys})


@cache
def spread(name: str) -> list[tuple[Case, dict[str, list[Any]]]]:
    """List the yaml's cases, each with the values of its settings that may have more than one."""
    result = []
    for changes in ({}, *mixer_yaml(name, FOLDER)["about"].get("variants", [])):
        base = Case(name, changes)
        values = {key: choices(name, key, value) for key, value in settings_of(base).items()}
        result.append((base, {key: some for key, some in values.items() if len(some) > 1}))
    return result


def choices(name: str, key: str, value: Any) -> list[Any]:
    """List the values that setting `key` of mixer `name` may have, that of the yaml first."""
    match value:
        case bool():
            return [value, not value]
        case str() if key != "_target_":
            return [value, *(word for word in words(name, key) if word != value)]
        case int() if key in ("d_model", "max_len"):
            return [value, *(WIDTHS if key == "d_model" else LENGTHS)]
        case int():
            return [value, *(n for n in WHOLE if n != value)]
        case float():
            return [value * factor for factor in FACTORS]
        case None if "int" in str(annotation(name, key)):
            return [None, *WHOLE]
        case dict():
            of = {k: LENGTHS if k == "max_len" else WHOLE for k in value if k[0] != "_"}
            return [value, *(value | {k: n} for k in of for n in of[k] if n != value[k])]
    return [value]


def annotation(name: str, key: str) -> Any:
    accepted, _ = parameters(get_class(mixer_yaml(name, FOLDER)["_target_"]))
    return accepted[key].annotation


@cache
def words(name: str, key: str) -> tuple[str, ...]:
    """Return the words of which setting `key` must be one, as the constructor's error lists them."""
    mixer, refusal = built(Case(name, {key: "?"}))
    assert mixer is None, f"{name} takes {key}='?'"
    named = re.search(r"must be one of (.*)\.$", refusal)
    assert named, f"{name} refuses {key}='?' and does not say what it takes: {refusal}"
    return tuple(named[1].split(", "))


def built(case: Case) -> tuple[Mixer, str] | tuple[None, str]:
    """Return the mixer, or the message with which it refuses the settings; any other error is a bug."""
    try:
        return build(case), ""
    except ValueError as error:
        return None, str(error)


NAMES = sorted({case.name for case in cases()})
LENGTH = 29  # prime
FEW, MORE, MANY = 3, 8, 40  # settings of each mixer that are not refused
Check = Callable[[Case, Mixer, int], None]


@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_random_settings_obey_the_laws(name: str, number: int):
    try_settings(name, number, obeys)


@pytest.mark.parametrize("name", NAMES)
def test_random_settings_fit_the_formula_of_the_state(name: str):
    try_settings(name, MORE, fits_the_formula)


def try_settings(name: str, number: int, check: Check) -> None:
    """Draw until `number` settings have been accepted and checked."""
    accepted = 0

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
        nonlocal accepted
        mixer, refusal = built(case)
        accepted += mixer is not None
        assert "\n" not in refusal
        assume(mixer is not None)
        check(case, mixer, cut)

    each()
    assert accepted >= number


def fits_the_formula(case: Case, mixer: Mixer, cut: int) -> None:
    del cut
    formula = mixer_yaml(case.name, case.folder)["about"].get("state")
    for n in (n for n in (*range(1, 40), 64, 1000) if formula is not None and n <= longest(case)):
        assert evaluate(formula, mixer, n) == mixer.state_size(n).resident, f"after {n}"


def obeys(case: Case, mixer: Mixer, cut: int) -> None:
    width, length = settings_of(case)["d_model"], min(LENGTH, longest(case))
    subject = laws.Subject(case)
    subject.mixer = mixer
    for law in (
        laws.the_past_does_not_move_when_the_future_does,
        laws.gradients_are_finite_and_every_parameter_is_used,
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
    y, state = laws.in_parts(mixer, x, [cut, cut + 1])
    assert held(state) == mixer.state_size(x.shape[1]).resident, f"held after {x.shape[1]} tokens"
    assert torch.allclose(y, mixer(x), rtol=1e-8, atol=1e-9), "pieces are not the whole"


def the_past_matters(mixer: Mixer, x: Tensor, width: int) -> None:
    """Check that each tensor of the state reaches a later output, unless it acts by selection alone."""
    _, state = mixer.extend(x)
    paths, structure = tree_flatten_with_path(state)
    parts = [p.detach().requires_grad_() if laws.is_real(p) else p for _, p in paths]
    live = {path[-1].name: p for (path, _), p in zip(paths, parts, strict=True) if laws.is_real(p)}
    later = torch.randn(1, 16, width, dtype=x.dtype, generator=rng(2))
    y, _ = mixer.extend(later, tree_unflatten(parts, structure))
    grads = torch.autograd.grad(y.square().sum(), list(live.values()), allow_unused=True) if live else ()
    for name, grad in zip(live, grads, strict=True):
        alive = grad is not None and (grad != 0).any()
        assert alive or name in laws.selects(state), f"no later output reads {name}"
