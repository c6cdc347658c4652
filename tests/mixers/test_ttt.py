"""TTT: sizes of its state, and initial values."""

import pytest
import torch

from tests.mixers.built import two_layers
from zoo.mixers import TTTLinear

SIZES = {"ttt_linear": 32**2 + 32, "ttt_mlp": 8 * 32**2 + 5 * 32}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    ("seq_len", "copies"), [(1, 1), (15, 1), (16, 1), (17, 2), (31, 2), (32, 1), (1023, 2), (1024, 1)]
)
def test_the_gradients_of_an_open_mini_batch_count(name: str, seq_len: int, copies: int):
    """The published count, that of the weights, is right where a mini-batch ends and in the first one."""
    size = two_layers(name, 64, seq_len)
    assert size.paper == 2 * 2 * SIZES[name]
    assert size.resident == copies * size.paper


def test_initial_values_are_the_published_ones():
    torch.manual_seed(0)
    mixer = TTTLinear(d_model=128, num_heads=2, expand=4)
    assert [tuple(w.shape[1:]) for w in mixer.inner] == [(64, 256), (1, 256), (256, 64), (1, 64)]
    for W, b in ((mixer.inner[0], mixer.inner[1]), (mixer.inner[2], mixer.inner[3])):
        assert W.std().item() == pytest.approx(0.02, rel=0.02)
        assert (b == 0).all()
    assert mixer.rate.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert (mixer.rate.bias == 0).all()
    assert (mixer.token_scale == 0).all()  # what is learned beside 1 / i
