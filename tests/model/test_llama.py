"""The small language models of the forgetting-curve paper: their size, and that they carry a memory on."""

import pytest
import torch

from tests.registry import composer
from zoo.model import model_from_config


@pytest.mark.parametrize("name", ["llama_83m", "llama_xl"])
def test_it_has_the_published_number_of_parameters(name: str) -> None:
    """83.1 million with the paper's vocabulary (Liu et al. 2024, appendix D)."""
    config = composer().cell([f"experiment={name}"]).config
    with torch.device("meta"):
        model = model_from_config(config, vocab_size=32_000)
    count = sum(parameter.numel() for parameter in model.parameters())
    mlp, attention = 3 * 512 * 2048, 4 * 512**2
    assert count == 2 * 32_000 * 512 + 12 * (mlp + attention + 2 * 512) + 512
    assert round(count / 1e6, 1) == 83.1


def test_the_memory_of_llama_xl_reaches_over_a_segment_and_no_farther() -> None:
    config = (
        composer().cell(["experiment=llama_xl", "d_model=16", "n_layers=1", "mixer.segment_len=8"]).config
    )
    model = model_from_config(config, vocab_size=32).eval()
    inputs = torch.randint(32, (1, 32), generator=torch.Generator().manual_seed(0))
    other = inputs.clone()
    other[0, 9] = (other[0, 9] + 1) % 32
    moved = (model(inputs) - model(other)).abs().amax(-1)[0] > 1e-6
    assert moved.nonzero().flatten().tolist() == list(range(9, 24))
