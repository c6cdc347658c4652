"""The language models of the published figures have the reference's equations and sizes."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.analysis.study import batch
from tests.definitions.deltanet import rms
from tests.independence import off_neutral, statement
from tests.model.test_blocks import layer_norm
from tests.registry import composer
from zoo.mixers.attention import Attention
from zoo.mixers.base import Mixer
from zoo.model import SequenceModel, model_from_config

VOCAB, SHRUNK = 40, ("d_model=16",)
PLAIN = ("mamba", "mamba2")


COMPOSER = composer()
# the words of the first cell of each mixer of the figure
CELLS = {
    next(word for word in row if word.startswith("mixer="))[6:]: row for row in reversed(batch("based_fig2"))
}


def model_of(name: str) -> SequenceModel:
    """Return a model in training mode, its parameters moved off their initial values: none is neutral."""
    model = model_from_config(COMPOSER.cell([*CELLS[name], *SHRUNK]).config, VOCAB)
    return off_neutral(model.double().train(), seed=1, by=1 / 8)


@torch.no_grad()
@pytest.mark.parametrize("name", sorted(CELLS))
def test_a_cell_of_the_figure_is_the_references_language_model(name: str):
    model = model_of(name)
    inputs = torch.randint(VOCAB, (3, 37), generator=torch.Generator().manual_seed(2))
    torch.manual_seed(3)
    actual = model.logits(model(inputs))
    torch.manual_seed(3)
    expected = (in_plain_blocks if name in PLAIN else in_transformer_blocks)(model, inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def in_transformer_blocks(model: SequenceModel, inputs: Tensor) -> Tensor:
    hidden, residual = F.dropout(model.embedding[inputs], 0.1), torch.zeros(())
    for block in model.blocks:
        residual = residual + hidden
        residual = residual + mixed(block.mixer, layer_norm(residual, block.norm))
        hidden = layer_norm(residual, block.state_norm)
    return layer_norm(residual + hidden, model.final_norm) @ model.embedding.T


def in_plain_blocks(model: SequenceModel, inputs: Tensor) -> Tensor:
    residual = model.embedding[inputs]
    for block in model.blocks:
        residual = residual + mixed(block.mixer, rms(residual, block.norm))
    return layer_norm(residual, model.final_norm) @ model.embedding.T


def mixed(mixer: Mixer, x: Tensor) -> Tensor:
    if isinstance(mixer, Attention):
        return dropping_attention(mixer, x)
    definitions = statement(type(mixer).__module__.split(".")[-1])
    assert definitions
    return definitions.definition(mixer, x)


def dropping_attention(mixer: Attention, x: Tensor) -> Tensor:
    q, k, v = (x @ mixer.qkv.proj.weight.T + mixer.qkv.proj.bias)[:, None].chunk(3, dim=-1)
    future = torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
    weights = F.dropout(torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + future, -1), 0.1)
    return (weights @ v)[:, 0] @ mixer.out_proj.weight.T + mixer.out_proj.bias


@pytest.mark.parametrize("name", ["llama_83m", "llama_xl"])
def test_a_llama_has_the_published_number_of_parameters(name: str) -> None:
    """83.1 million with the paper's vocabulary (Liu et al. 2024, appendix D)."""
    config = composer().cell([f"experiment={name}"]).config
    with torch.device("meta"):
        model = model_from_config(config, vocab_size=32_000)
    count = sum(parameter.numel() for parameter in model.parameters())
    mlp, attention = 3 * 512 * 2048, 4 * 512**2
    assert count == 2 * 32_000 * 512 + 12 * (mlp + attention + 2 * 512) + 512
    assert round(count / 1e6, 1) == 83.1


def test_the_memory_of_llama_xl_reaches_over_a_segment_and_no_farther() -> None:
    cell = COMPOSER.cell(["experiment=llama_xl", "d_model=16", "n_layers=1", "mixer.segment_len=8"])
    model = model_from_config(cell.config, vocab_size=32).eval()
    inputs = torch.randint(32, (1, 32), generator=torch.Generator().manual_seed(0))
    other = inputs.clone()
    other[0, 9] = (other[0, 9] + 1) % 32
    moved = (model(inputs) - model(other)).abs().amax(-1)[0] > 1e-6
    assert moved.nonzero().flatten().tolist() == list(range(9, 24))
