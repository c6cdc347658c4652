"""RWKV-4: what a fresh layer is."""

import math

import pytest
import torch

from zoo.mixers import RWKV4


@pytest.mark.parametrize(("layer", "n_layers"), [(0, 4), (1, 4), (3, 4), (0, 1)])
def test_initial_values_are_the_published_ones(layer, n_layers):
    width, mixer = 9, RWKV4(d_model=9, layer=layer, n_layers=n_layers)
    late = layer / (n_layers - 1) if n_layers > 1 else 0
    for c in range(width):
        x = c / width
        mu_k, mu_v, mu_r = (1 - mixer.shift.share[:, c]).tolist()
        assert mu_k == pytest.approx(x ** (1 - layer / n_layers), abs=1e-6)
        assert mu_v == pytest.approx(x ** (1 - layer / n_layers) + 0.3 * late, abs=1e-6)
        assert mu_r == pytest.approx(x ** (0.5 * (1 - layer / n_layers)), abs=1e-6)
        assert mixer.decay[c].item() == pytest.approx(
            -5 + 8 * (c / (width - 1)) ** (0.7 + 1.3 * late), abs=1e-5
        )
        assert mixer.bonus[c].item() == pytest.approx(math.log(0.3) + 0.5 * ((c + 1) % 3 - 1), abs=1e-6)
    for zero in (mixer.key, mixer.receptance, mixer.out_proj):
        assert not zero.weight.any()
    torch.testing.assert_close(mixer.value.weight @ mixer.value.weight.T, torch.eye(width), atol=1e-5, rtol=0)
