"""What is printed of a cell before it runs."""

import pytest

from tests.registry import composer
from zoo.launch.describe import describe

WHOLE = [
    "",
    "n_layers=4",
    "mixer=mamba2 model=mamba2_hybrid",
    "model.layers=[mixer] n_layers=3",
    "model=jamba",
]


def note(words: str) -> str | None:
    return describe(composer().cell(words.split())).get("note")


def test_a_stack_that_ends_on_its_convolution_says_so() -> None:
    said = note("n_layers=3")
    assert said == "3 layers end on BaseConv, within a pattern of 2: n_layers=4 ends on LinearAttention"


@pytest.mark.parametrize("words", WHOLE)
def test_other_stacks_say_nothing(words: str) -> None:
    assert note(words) is None


def test_another_precision_is_named_for_it_makes_another_cell() -> None:
    gpu = describe(composer().cell(["trainer=gpu"]))
    assert gpu["precision"] == "bf16-mixed, of trainer=gpu; in 32-true it is another cell"
    assert "precision" not in describe(composer().cell([]))
