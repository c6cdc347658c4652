"""Settings are checked against the arguments of the class they build: strict types, messages of one line."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import pytest

from zoo.config.arguments import ill_typed, mistakes
from zoo.mixers.state import StateSize

Segments = Iterable[StateSize | Mapping[str, int | str]]

FITS = [
    (int, (0, 10**30)),
    (float, (1, 0.5, math.nan, -math.inf)),
    (int | None, (None, 3)),
    (Sequence[float], ([], [1, 0.5])),
    (tuple[float, float], ([0.9, 1],)),
    (Literal["sum", "none"], ("none",)),
    (int | Literal["auto"], ("auto", 3)),
    (dict[str, Any] | None, ({"a": [1]}, None)),
    (Segments, ([{"seq_len": 3}],)),
    (StateSize, (3, "any value fits a class of the project")),
]


@pytest.mark.parametrize(("hint", "value"), [(hint, value) for hint, values in FITS for value in values])
def test_a_value_that_fits_is_accepted(hint: Any, value: Any):
    assert ill_typed("key", value, hint) == []


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, True, "key (=True) must be an integer."),
        (int, 3.0, "key (=3.0) must be an integer."),
        (float, "3", "key (='3') must be a number."),
        (float, True, "key (=True) must be a number."),
        (bool, 1, "key (=1) must be true or false."),
        (str, 3, "key (=3) must be a word."),
        (int | None, "x", "key (='x') must be an integer or null."),
        (Sequence[float], "ab", "key (='ab') must be a list."),
        (Sequence[float], [0.9, "a"], "key[1] (='a') must be a number."),
        (int | Sequence[int], 0.5, "key (=0.5) must be an integer or a list."),
        (int | Sequence[int], [1, "a"], "key[1] (='a') must be an integer."),
        (Literal["sum", "none"], "max", "key (='max') must be one of sum, none."),
        (Literal["sum", "none"] | None, "max", "key (='max') must be one of sum, none or null."),
        (int | Literal["auto"], "many", "key (='many') must be an integer or auto."),
        (dict[str, Any], 3, "key (=3) must be a {key: value} of settings."),
        (Segments, 3, "key (=3) must be a list."),
        (Callable[[int], Any], 3, "key (=3) must be a part: {_target_: my_module.MyClass}."),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_line(hint: Any, value: Any, message: str):
    assert ill_typed("key", value, hint) == [message]


class Over:
    def __init__(self, *, seed: int, rate: float = 0.5) -> None: ...


class Under(Over):
    def __init__(self, *, size: int, mixer: Any, **rest: Any) -> None: ...


def test_arguments_of_a_class_and_of_its_base_class_are_checked():
    def problems(**given: Any) -> list[str]:
        return mistakes("task", given, Under, supplied=("mixer",))

    assert problems(seed=1, size=2, about={"label": "x"}) == []
    assert problems(seed=1, size={"_target_": "some.Part"}) == [], "that is judged where it is built"
    assert problems(seed=1, siz=2) == [
        "unknown key task.siz; did you mean task.size?",
        "task.size must be given: Under has no default for it.",
    ]
    assert problems(seed="a", size=2, rate=None) == [
        "task.seed (='a') must be an integer.",
        "task.rate (=None) must be a number.",
    ]
    assert mistakes("task", {"seed": 1}, Under, ("mixer",), partial=True) == []
