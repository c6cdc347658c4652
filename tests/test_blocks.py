"""Each block against its residual stream written out."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.test_model import COUNTER, PRE_NORM, VOCAB, ZOOLOGY, config, ids
from zoo.model import SequenceModel, model_from_config


def model_with(block: dict[str, Any], layers: int = 3) -> SequenceModel:
    """In eval mode, every parameter moved off its initial value so that none is neutral."""
    model = model_from_config(config([COUNTER] * layers, block, tie_embedding=False), VOCAB).double().eval()
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=rng, dtype=parameter.dtype) / 4
    return model


def embedded(model: SequenceModel) -> Tensor:
    return model.embedding[ids(11)]


def layer_norm(x: Tensor, norm: nn.Module) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def rms_norm(x: Tensor, norm: nn.Module) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("mlp", ["none", "gelu", "swiglu"])
def test_pre_norm_adds_the_mixer_and_then_the_mlp(kind: str, mlp: str):
    model = model_with(PRE_NORM | {"norm": kind, "mlp": mlp, "mlp_ratio": 1.5})
    norm = layer_norm if kind == "layer" else rms_norm
    x = embedded(model)
    for block in model.blocks:
        x = x + block.mixer(norm(x, block.norm))
        if mlp == "gelu":
            up = norm(x, block.mlp_norm) @ block.mlp.up_proj.weight.T + block.mlp.up_proj.bias
            x = x + F.gelu(up) @ block.mlp.down_proj.weight.T + block.mlp.down_proj.bias
        if mlp == "swiglu":
            gate, up = (norm(x, block.mlp_norm) @ block.mlp.gate_up_proj.weight.T).split(24, dim=-1)
            x = x + (gate * gate.sigmoid() * up) @ block.mlp.down_proj.weight.T
    torch.testing.assert_close(model(ids(11)), norm(x, model.final_norm))


def test_zoology_keeps_the_references_residual_stream():
    model = model_with(ZOOLOGY)
    residual = torch.zeros_like(embedded(model))
    hidden = embedded(model)
    for block in model.blocks:
        residual = residual + hidden
        hidden = block.mixer(layer_norm(residual, block.norm))
        residual = residual + hidden
        hidden = layer_norm(residual, block.state_norm)  # the identity state mixer
    torch.testing.assert_close(model(ids(11)), layer_norm(hidden + residual, model.final_norm))


def test_zoology_is_not_a_block_without_an_mlp():
    plain, zoology = model_with(PRE_NORM), model_with(ZOOLOGY)
    assert not torch.allclose(plain(ids(11)), zoology(ids(11)))


@pytest.mark.parametrize("block", [PRE_NORM, ZOOLOGY], ids=["pre_norm", "zoology"])
def test_dropout_falls_on_the_embedding_alone_and_in_training_alone(block: dict[str, Any]):
    model = model_with(block | {"embed_dropout": 0.5})
    assert torch.equal(model(ids(11)), model_with(block | {"embed_dropout": 0.0})(ids(11)))
    model.train()
    seen: list[Tensor] = []
    for block_ in model.blocks:
        block_.norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model(ids(11))
    share = (seen[0] == 0).double().mean()
    assert 0.35 < share < 0.65
    assert not any((x == 0).any() for x in seen[1:])


def test_zoologys_own_dropout_is_the_references():
    assert model_with(ZOOLOGY).blocks[0].embed_dropout.p == 0.1
    assert model_with(PRE_NORM).blocks[0].embed_dropout.p == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"norm": "batch"}, r"block\.norm \(='batch'\) must be one of layer, rms"),
        ({"mlp": "relu"}, r"block\.mlp \(='relu'\) must be one of"),
        ({"mlp": "gelu", "mlp_ratio": 0.0}, r"block\.mlp_ratio \(=0\.0\)"),
        ({"embed_dropout": 1.0}, r"block\.embed_dropout \(=1\.0\)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        model_with(PRE_NORM | change)
