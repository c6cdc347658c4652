"""Shared attention in a model: one set of weights, a memory for every call, and the model's input in view."""

from itertools import pairwise

import pytest
import torch

from tests.definitions.shared_attention import definition
from tests.registry import compose
from zoo.mixers import SharedAttention
from zoo.model import SequenceModel, model_from_config

PATTERN = ["model.layers=[base_conv,mixer,mixer,base_conv,mixer]", "n_layers=5", "d_model=8"]


def built(*overrides: str) -> SequenceModel:
    config = compose(["mixer=shared_attention", *PATTERN, *overrides]).config
    return model_from_config(config, vocab_size=20).double().eval()


def test_weights_are_one_set_and_counted_once():
    mixers = built().mixers
    calls = [mixers[i] for i in (1, 2, 4)]
    for call in calls[1:]:
        for name in ("norm", "qkv", "attn_proj"):
            assert getattr(call, name) is getattr(calls[0], name)
    alone = sum(p.numel() for p in SharedAttention(d_model=8).parameters())
    together = {p for call in calls for p in call.parameters()}
    assert sum(p.numel() for p in together) == alone + 2 * 8 * 8
    for one, other in pairwise(calls):
        assert not torch.equal(one.out_proj.weight, other.out_proj.weight)


def test_a_step_of_training_moves_the_one_set_by_the_sum_of_all_calls():
    model = built()
    model(torch.randint(20, (2, 9))).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    calls = [model.mixers[i] for i in (1, 2, 4)]
    assert calls[0].qkv.proj.weight.grad is calls[2].qkv.proj.weight.grad


@torch.no_grad()
def test_every_call_has_a_memory_of_its_own():
    model, inputs = built(), torch.randint(20, (2, 7))
    _, state = model.extend(inputs)
    kept = [state.layers[i].mixer for i in (1, 2, 4)]
    assert all(part.k.shape == (2, 1, 7, 16) for part in kept)
    assert not torch.equal(kept[0].k, kept[1].k)
    assert model.state_size(7).resident == 3 * 2 * 7 * 16 + 2 * 2 * 8


@torch.no_grad()
def test_what_it_reads_beside_the_stream_is_the_models_input(monkeypatch):
    model, inputs, seen = built(), torch.randint(20, (2, 7)), []
    kind = type(model.mixers[1])
    original = kind.extend_linked

    def spied(mixer, x, state, read):
        y, *after = original(mixer, x, state, read)
        seen.append((x, read["embedding"], y, mixer))
        return y, *after

    monkeypatch.setattr(kind, "extend_linked", spied)
    model(inputs)
    assert len(seen) == 3
    for x, embedding, y, mixer in seen:
        torch.testing.assert_close(embedding, model.embedding[inputs])
        torch.testing.assert_close(y, definition(mixer, x, embedding), rtol=1e-9, atol=1e-10)


def test_calls_with_different_settings_cannot_share():
    with pytest.raises(ValueError, match="same settings"):
        built("model.layers=[mixer,{mixer: {num_heads: 2}}]")
