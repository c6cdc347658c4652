"""Settings of a mixer, drawn at random from what its yaml and its constructor allow.

A setting's kind is that of its value in the yaml, and of the constructor's annotation where that is null.
The words that a text may be come from the constructor: it names them when it refuses another.
"""

import re
from functools import cache
from typing import Any

from hydra.utils import get_class
from hypothesis import strategies as st

from tests.registry import FOLDER
from zoo.config.arguments import parameters
from zoo.mixers.base import Mixer
from zoo.mixers.cases import Case, build, mixer_yaml, settings

WHOLE = (1, 2, 3, 4, 5, 6, 8, 12, 0)
WIDTHS = (8, 12, 24)  # of d_model, which the mixer's own settings are not about
LENGTHS = (48, 64, 1000)  # of max_len, which the laws' sequences must fit in
FACTORS = (1.0, 0.5, 3.0)


@st.composite
def drawn(draw: st.DrawFn, name: str) -> Case:
    """One of the yaml's own cases with one to four settings changed; it may be one that is refused."""
    base, others = draw(st.sampled_from(spread(name)))
    keys = draw(st.lists(st.sampled_from(sorted(others)), min_size=1, max_size=4, unique=True))
    return Case(name, base.changes | {key: draw(st.sampled_from(others[key])) for key in keys})


@cache
def spread(name: str) -> list[tuple[Case, dict[str, list[Any]]]]:
    """The yaml's own cases, and what each of their settings may be where it may be more than one thing."""
    bases = [Case(name, changes) for changes in ({}, *mixer_yaml(name, FOLDER)["about"].get("variants", []))]
    found = [
        (base, {key: choices(name, key, value) for key, value in settings(base).items()}) for base in bases
    ]
    return [
        (base, {key: of for key, of in may.items() if len(of) > 1 and key != "_target_"})
        for base, may in found
    ]


def choices(name: str, key: str, value: Any) -> list[Any]:
    """What setting `key` of mixer `name` may be, its value in the yaml first."""
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
            return [
                value,
                *(value | {k: other} for k in value if k[0] != "_" for other in _other(k, value[k])),
            ]
    return [value]


def _other(key: str, value: Any) -> list[Any]:
    return [n for n in (LENGTHS if key == "max_len" else WHOLE) if n != value]


def annotation(name: str, key: str) -> Any:
    accepted, _ = parameters(get_class(mixer_yaml(name, FOLDER)["_target_"]))
    return accepted[key].annotation


@cache
def words(name: str, key: str) -> tuple[str, ...]:
    """What the constructor says setting `key` must be one of."""
    mixer, refusal = built(Case(name, {key: "?"}))
    assert mixer is None, f"{name} takes {key}='?'"
    named = re.search(r"must be one of (.*)\.$", refusal)
    assert named, f"{name} refuses {key}='?' and does not say what it takes: {refusal}"
    return tuple(named[1].split(", "))


def built(case: Case) -> tuple[Mixer, str] | tuple[None, str]:
    """The mixer, or the line with which it refuses the settings.  All else is a mistake of ours."""
    try:
        return build(case), ""
    except ValueError as error:
        return None, str(error)
