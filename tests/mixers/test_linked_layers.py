"""Layers of a model that share one set of weights, each call with its own memory, or one cache."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tests.definitions.shared_attention import definition
from tests.definitions.yoco import above
from tests.registry import compose
from zoo.mixers import SharedAttention
from zoo.model import SequenceModel, model_from_config

LAYERS = {  # where a mixer stands in a model of five layers
    "shared_attention": "model.layers=[base_conv,mixer,mixer,base_conv,mixer]",
    "yoco": "model.layers=[base_conv,mixer,base_conv,mixer,mixer]",
}


def built(name: str, *overrides: str) -> SequenceModel:
    config = compose([f"mixer={name}", LAYERS[name], "n_layers=5", "d_model=8", *overrides]).config
    return model_from_config(config, vocab_size=20).double().eval()


@torch.no_grad()
def calls_of(model: SequenceModel, inputs: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Return the input of each call of the mixer, what it reads of others, its output and itself."""
    calls, kind = [], type(model.mixers[1])
    original = kind.extend_linked

    def spied(mixer, x, state, read):
        y, *after = original(mixer, x, state, read)
        calls.append((x, dict(read), y, mixer))
        return y, *after

    monkeypatch.setattr(kind, "extend_linked", spied)
    model(inputs)
    return calls


@pytest.mark.parametrize("name", LAYERS)
def test_layers_with_other_settings_cannot_share(name: str):
    with pytest.raises(ValueError, match="same settings"):
        built(name, "model.layers=[mixer,{mixer: {num_heads: 2}}]")


def test_weights_are_one_set_and_counted_once():
    mixers = built("shared_attention").mixers
    calls = [mixers[i] for i in (1, 2, 4)]
    for call in calls[1:]:
        for name in ("norm", "qkv", "attn_proj"):
            assert getattr(call, name) is getattr(calls[0], name)
    alone = sum(p.numel() for p in SharedAttention(d_model=8).parameters())
    together = {p for call in calls for p in call.parameters()}
    assert sum(p.numel() for p in together) == alone + 2 * 8 * 8
    for one, other in pairwise(calls):
        assert not torch.equal(one.out_proj.weight, other.out_proj.weight)


@torch.no_grad()
def test_every_call_has_a_memory_of_its_own():
    model, inputs = built("shared_attention"), torch.randint(20, (2, 7))
    _, state = model.extend(inputs)
    states = [state.layers[i].mixer for i in (1, 2, 4)]
    assert all(part.k.shape == (2, 1, 7, 16) for part in states)
    assert not torch.equal(states[0].k, states[1].k)
    assert model.state_size(7).resident == 3 * 2 * 7 * 16 + 2 * 2 * 8


@torch.no_grad()
def test_every_call_also_reads_the_models_input(monkeypatch):
    model, inputs = built("shared_attention"), torch.randint(20, (2, 7))
    calls = calls_of(model, inputs, monkeypatch)
    assert len(calls) == 3
    for x, read, y, mixer in calls:
        torch.testing.assert_close(read["embedding"], model.embedding[inputs])
        torch.testing.assert_close(y, definition(mixer, x, read["embedding"]), rtol=1e-9, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_the_layers_above_read_the_cache_of_the_lowest(monkeypatch, position: str):
    model = built("yoco", f"mixer.position={position}", "mixer.num_heads=4", "mixer.num_kv_heads=2")
    (below, _, _, lowest), *others = calls_of(model, torch.randint(20, (2, 9)), monkeypatch)
    assert len(others) == 2
    for x, _, y, mixer in others:
        torch.testing.assert_close(y, above(mixer, x, lowest, below), rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_the_cache_is_kept_and_counted_once_and_read_by_all():
    model, inputs = built("yoco"), torch.randint(20, (2, 7))
    _, state = model.extend(inputs)
    assert [len(state.layers[i].mixer) for i in (1, 3, 4)] == [2, 0, 0]
    size = model.state_size(7)
    assert size.resident == 2 * 8 * 7 + 2 * 2 * 8
    assert size.touched == 3 * 2 * 8 * 7 + 2 * 2 * 8


def test_the_layers_above_have_no_projection_of_keys_and_every_weight_is_trained():
    model = built("yoco")
    assert [model.mixers[i].qkv.proj.weight.shape[0] for i in (1, 3, 4)] == [24, 8, 8]
    model(torch.randint(20, (2, 9))).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
