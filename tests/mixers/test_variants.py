"""Every variant that a mixer's yaml lists under `about` is one that the command line takes."""

import json
from typing import Any

import pytest

from tests.registry import cases, composer
from zoo.launch.preflight import Validator
from zoo.mixers.cases import WIDTH, mixer_yaml

pytestmark = pytest.mark.xdist_group("every mixer composed")  # with one composer
VARIANTS = [
    (name, variant)
    for name in sorted({case.name for case in cases()})
    for variant in mixer_yaml(name)["about"].get("variants", [])
]


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=str)
def test_the_command_line_takes_the_variant(name: str, variant: dict[str, Any]):
    words = [f"mixer.{key}={_word(value)}" for key, value in variant.items()]
    cell = composer().cell([f"mixer={name}", f"d_model={WIDTH}", "experiment=smoke", *words])
    assert Validator().problems(cell) == []


def _word(value: Any) -> str:
    """Write a value as the command line has it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_word(inner)}" for key, inner in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value)
