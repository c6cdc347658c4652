"""State of published models: two layers after 1024 tokens, a BaseConv and the mixer, from the configs."""

import pytest
from hydra.utils import instantiate

from zoo.config import compose
from zoo.state import StateSize, total


def size(*overrides: str) -> StateSize:
    layers = compose(list(overrides)).config["model"]["layers"]
    return total(instantiate(layer, _convert_="all").state_size(1024) for layer in layers)


@pytest.mark.parametrize(("d_model", "paper", "resident"), [(64, 131264, 131200), (128, 262528, 262400)])
def test_attention(d_model: int, paper: int, resident: int):
    assert size("mixer=attention", f"d_model={d_model}") == StateSize(paper, resident, resident)


@pytest.mark.parametrize(
    ("d_model", "feature_dim", "paper", "resident"),
    [
        (48, 8, 2349, 2301),
        (48, 16, 7641, 7593),
        (48, 24, 16069, 16021),
        (64, 8, 3117, 3053),
        (64, 16, 10137, 10073),
        (64, 24, 21317, 21253),
        (128, 8, 6189, 6061),
        (128, 16, 20121, 19993),
        (128, 24, 42309, 42181),
    ],
)
def test_based(d_model: int, feature_dim: int, paper: int, resident: int):
    sizes = size("mixer=based", f"d_model={d_model}", f"mixer.feature_dim={feature_dim}")
    assert sizes == StateSize(paper, resident, resident)


@pytest.mark.parametrize(
    ("block_size", "paper", "resident"), [(8, 2432, 2304), (64, 16768, 16640), (1024, 262528, 262400)]
)
def test_sliding_window(block_size: int, paper: int, resident: int):
    """The published block_size shows block_size + 1 keys and is counted as block_size of them."""
    counted = size("mixer=sliding_window", "d_model=128", f"mixer.window={block_size}")
    kept = size("mixer=sliding_window", "d_model=128", f"mixer.window={block_size + 1}")
    assert (counted.paper, kept.resident, kept.touched) == (paper, resident, resident)


def test_the_language_models_layers():
    layers = compose(["mixer=based", "model=based_lm", "n_layers=27", "d_model=64"]).config["model"]["layers"]
    kinds = [layer["_target_"].rsplit(".")[-1] for layer in layers]
    assert [i for i, kind in enumerate(kinds) if kind == "LinearAttention"] == [1, 6, 11, 16, 21, 26]
    assert [i for i, kind in enumerate(kinds) if kind == "SlidingWindow"] == [2, 7, 12, 17, 22]
    assert layers[0]["expand"] == 4
    assert layers[2]["position"] == "rope"
