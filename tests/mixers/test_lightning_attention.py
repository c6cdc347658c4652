"""Lightning Attention: its rates."""

import pytest
import torch

from zoo.mixers import LightningAttention


def kept(layer: int, n_layers: int, num_heads: int = 4) -> list[float]:
    """The share of its first key that each head keeps after one more token, read off the state."""
    mixer = LightningAttention(
        d_model=8, num_heads=num_heads, head_dim=2, layer=layer, n_layers=n_layers
    ).double()
    x = torch.randn(1, 1, 8, dtype=torch.float64)
    _, state = mixer.extend(x)
    _, later = mixer.extend(torch.zeros_like(x), state)  # writes nothing
    return (later.kv / state.kv)[0, :, 0, 0].tolist()


def test_heads_forget_at_the_rates_of_the_released_model():
    """A quarter, a sixteenth, ... at the lowest layer; next to nothing at the highest."""
    rates = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.float64)
    for layer, share in ((0, 1 + 1e-5), (1, 0.5 + 1e-5), (2, 1e-5)):
        assert kept(layer, 3) == pytest.approx((-rates * share).exp().tolist(), rel=1e-12)
    assert kept(0, 1) == pytest.approx((-rates * (1 + 1e-5)).exp().tolist(), rel=1e-12)
