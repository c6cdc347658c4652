"""Each block against its residual stream written out, each channel mix against its equations."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from tests.definitions.deltanet import rms
from tests.independence import off_neutral
from tests.model.test_model import COUNTER, PRE_NORM, VOCAB, ZOOLOGY, config, ids
from zoo.blocks.channel_mix import ChannelMix, ChannelMix7
from zoo.mixers.cases import Case, awake, settings
from zoo.mixers.laws import held, in_parts
from zoo.model import SequenceModel, model_from_config


def model_with(block: dict[str, Any], layers: int = 3) -> SequenceModel:
    """Return a model in eval mode whose parameters are moved off their initial values: none is neutral."""
    model = model_from_config(config([COUNTER] * layers, block, tie_embedding=False), VOCAB)
    return off_neutral(model.double().eval(), seed=1, by=1 / 4)


def layer_norm(x: Tensor, norm: nn.Module) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


@pytest.mark.parametrize(("kind", "last"), [("layer", None), ("rms", None), ("rms", "layer")])
@pytest.mark.parametrize("mlp", ["none", "gelu", "swiglu"])
def test_pre_norm_adds_the_mixer_and_then_the_mlp(kind: str, last: str | None, mlp: str):
    model = model_with(PRE_NORM | {"norm": kind, "final_norm": last, "mlp": mlp, "mlp_ratio": 1.5})
    norm = layer_norm if kind == "layer" else rms
    final_norm = layer_norm if (last or kind) == "layer" else rms
    x = model.embedding[ids(11)]
    for block in model.blocks:
        x = x + block.mixer(norm(x, block.norm))
        if mlp == "gelu":
            up = norm(x, block.mlp_norm) @ block.mlp.up_proj.weight.T + block.mlp.up_proj.bias
            x = x + F.gelu(up) @ block.mlp.down_proj.weight.T + block.mlp.down_proj.bias
        if mlp == "swiglu":
            gate, up = (norm(x, block.mlp_norm) @ block.mlp.gate_up_proj.weight.T).split(24, dim=-1)
            x = x + (gate * gate.sigmoid() * up) @ block.mlp.down_proj.weight.T
    torch.testing.assert_close(model(ids(11)), final_norm(x, model.final_norm))


@pytest.mark.parametrize("block", [PRE_NORM, ZOOLOGY], ids=["pre_norm", "zoology"])
def test_dropout_falls_on_the_embedding_alone_and_in_training_alone(block: dict[str, Any]):
    model = model_with(block | {"embed_dropout": 0.5})
    assert torch.equal(model(ids(11)), model_with(block | {"embed_dropout": 0.0})(ids(11)))
    model.train()
    inputs: list[Tensor] = []
    for block_ in model.blocks:
        block_.norm.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    model(ids(11))
    share = (inputs[0] == 0).double().mean()
    assert 0.35 < share < 0.65
    assert not any((x == 0).any() for x in inputs[1:])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"norm": "batch"}, r"block\.norm \(='batch'\) must be one of layer, rms"),
        ({"final_norm": "batch"}, r"block\.final_norm \(='batch'\) must be one of layer, rms"),
        ({"mlp": "relu"}, r"block\.mlp \(='relu'\) must be one of"),
        ({"mlp": "gelu", "mlp_ratio": 0.0}, r"block\.mlp_ratio \(=0\.0\)"),
        ({"embed_dropout": 1.0}, r"block\.embed_dropout \(=1\.0\)"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        model_with(PRE_NORM | change)


CHANNEL_MIXES = ("rwkv_channel_mix", "rwkv7_channel_mix")


@torch.no_grad()
@pytest.mark.parametrize("mlp", CHANNEL_MIXES)
def test_the_state_of_a_channel_mix_is_one_token_and_counts(mlp: str):
    model, plain = model_with(PRE_NORM | {"mlp": mlp, "n_layers": 3}), model_with(PRE_NORM)
    parts, state = in_parts(model, ids(11), [1, 5])
    torch.testing.assert_close(parts, model(ids(11)))
    assert state and sum(held(layer) for layer in state.layers) == 3 * model.blocks[0].d_model
    sizes = model.state_size(11), plain.state_size(11)
    assert sizes[0].resident - sizes[1].resident == 3 * model.blocks[0].d_model
    assert sizes[0].paper == sizes[1].paper


@pytest.mark.parametrize("mlp", CHANNEL_MIXES)
def test_a_channel_mix_widens_the_visible_window(mlp: str):
    window = settings(Case("sliding_window", {"window": 3}))
    block = PRE_NORM | {"mlp": mlp, "layer": 0, "n_layers": 1}
    model = model_from_config(config([window], block), VOCAB)
    t = torch.arange(9)
    age = t[:, None] - t
    assert torch.equal(model.visible(torch.eye(9, dtype=torch.bool)), (age >= 0) & (age <= 3))


def test_a_channel_mix_is_initialised_by_its_depth():
    block = PRE_NORM | {"mlp": "rwkv_channel_mix", "layer": 0, "n_layers": 2}
    low, high = model_from_config(config([COUNTER] * 2, block), VOCAB).blocks
    assert not torch.equal(low.mlp.shift.share, high.mlp.shift.share)


each_kind = pytest.mark.parametrize("kind", [ChannelMix, ChannelMix7])


def mixed_by_definition(m: ChannelMix | ChannelMix7, x: Tensor) -> Tensor:
    """Compute a channel mix of one sequence [T D] token by token, by its equation."""
    before, ys = torch.zeros_like(x[0]), []
    for x_t in x:
        mixed = [mu * x_t + (1 - mu) * before for mu in 1 - m.shift.share]
        k = m.key.weight @ mixed[0]
        y = m.value.weight @ (k * (k > 0)) ** 2
        if isinstance(m, ChannelMix):
            y = y / (1 + torch.exp(-(m.receptance.weight @ mixed[1])))
        ys.append(y)
        before = x_t
    return torch.stack(ys)


def made(kind: type, **settings: float) -> ChannelMix | ChannelMix7:
    return awake(kind(6, **settings)).double()


@each_kind
@pytest.mark.parametrize("settings", [{}, {"ratio": 0.5, "layer": 1, "n_layers": 3}])
def test_a_channel_mix_is_its_equation(kind, settings):
    mix, x = made(kind, **settings), torch.randn(2, 9, 6, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([mixed_by_definition(mix, row) for row in x])
    torch.testing.assert_close(mix(x), expected)
    inputs = [x, *mix.parameters()]
    ours, theirs = (torch.autograd.grad(y.sin().sum(), inputs) for y in (mix(x), expected))
    torch.testing.assert_close(ours, theirs)
    assert all(g.any() for g in ours)


@each_kind
def test_stacked_channel_mixes_equal_single_ones(kind):
    members, x = [made(kind) for _ in range(2)], torch.randn(2, 3, 5, 6, dtype=torch.float64)
    weights, buffers = stack_module_state(members)
    together = vmap(lambda w, b, x: functional_call(members[0], (w, b), (x,)))(weights, buffers, x)
    torch.testing.assert_close(together, torch.stack([m(x) for m, x in zip(members, x, strict=True)]))


@each_kind
@pytest.mark.parametrize(("layer", "n_layers"), [(0, 1), (0, 3), (2, 3)])
def test_a_channel_mix_starts_with_the_published_values(kind, layer, n_layers):
    mix, power = kind(6, layer=layer, n_layers=n_layers), 4 if kind is ChannelMix7 else 1
    for c in range(6):
        for share in mix.shift.share[:, c].tolist():
            assert share == pytest.approx(1 - (c / 6) ** ((1 - layer / n_layers) ** power), abs=1e-6)
    torch.testing.assert_close(mix.key.weight.T @ mix.key.weight, torch.eye(6), atol=1e-5, rtol=0)
    assert not mix.value.weight.any()
    assert kind is ChannelMix7 or not mix.receptance.weight.any()
    assert mix.key.weight.shape == (24, 6)


@each_kind
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ratio": 0.01}, r"ratio \(=0.01\) times d_model \(=6\) must be at least 1"),
        ({"layer": 2}, r"layer \(=2\) must be at least 0 and below n_layers \(=2\)"),
    ],
)
def test_impossible_settings_of_a_channel_mix_are_refused(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(6, **wrong)
