"""YOCO in a model: one layer writes the cache, all above read it, and it is counted once."""

import pytest
import torch

from tests.definitions.yoco import above
from tests.registry import compose
from zoo.model import SequenceModel, model_from_config

LAYERS = "model.layers=[base_conv,mixer,base_conv,mixer,mixer]"


def built(*overrides: str) -> SequenceModel:
    config = compose(["mixer=yoco", LAYERS, "n_layers=5", "d_model=8", *overrides]).config
    return model_from_config(config, vocab_size=20).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_the_layers_above_read_the_cache_of_the_lowest(monkeypatch, position: str):
    model = built(f"mixer.position={position}", "mixer.num_heads=4", "mixer.num_kv_heads=2")
    inputs, seen = torch.randint(20, (2, 9)), []
    kind = type(model.mixers[1])
    original = kind.extend_linked

    def spied(mixer, x, state, read):
        y, *after = original(mixer, x, state, read)
        seen.append((x, y, mixer))
        return y, *after

    monkeypatch.setattr(kind, "extend_linked", spied)
    model(inputs)
    (below, _, lowest), *others = seen
    assert len(others) == 2
    for x, y, mixer in others:
        torch.testing.assert_close(y, above(mixer, x, lowest, below), rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_the_cache_is_kept_and_counted_once_and_read_by_all():
    model, inputs = built(), torch.randint(20, (2, 7))
    _, state = model.extend(inputs)
    assert [len(state.layers[i].mixer) for i in (1, 3, 4)] == [2, 0, 0]
    size = model.state_size(7)
    assert size.resident == 2 * 8 * 7 + 2 * 2 * 8
    assert size.touched == 3 * 2 * 8 * 7 + 2 * 2 * 8


def test_the_layers_above_have_no_projection_of_keys_and_every_weight_is_trained():
    model = built()
    assert [model.mixers[i].qkv.proj.weight.shape[0] for i in (1, 3, 4)] == [24, 8, 8]
    model(torch.randint(20, (2, 9))).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_layers_with_other_settings_cannot_read_the_cache():
    with pytest.raises(ValueError, match="same settings"):
        built("model.layers=[mixer,{mixer: {num_heads: 2}}]")
