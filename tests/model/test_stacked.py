"""A model whose inputs are two tokens each: what stands where, what is trained, what an answer may be."""

import pytest
import torch

from tests.model.test_model import COUNTER, config
from zoo.model import SequenceModel, model_from_config

VOCAB, HALF = 12, 6


def stacked(**model: object) -> SequenceModel:
    return model_from_config(config([COUNTER], **model), VOCAB, stacked=True).double()


def test_a_place_holds_the_keys_embedding_beside_the_values_or_beside_nothing():
    model = stacked()
    table, into = model.embedding, model.stacked.into
    keys, values = [2, 5, 0, 3], [4, 0, 5, None]
    ids = torch.tensor([[k if v is None else k + HALF * (v + 1) for k, v in zip(keys, values, strict=True)]])
    nothing = torch.zeros_like(table[0])
    sides = [
        torch.cat([table[k], nothing if v is None else table[HALF + v]])
        for k, v in zip(keys, values, strict=True)
    ]
    assert torch.allclose(model.start(ids).sum()[0], into(torch.stack(sides)))


def test_embeddings_are_unit_vectors_that_are_kept_and_not_trained():
    model = stacked()
    assert torch.allclose(model.embedding.norm(dim=1), torch.ones(VOCAB).double())
    assert "embedding" in model.state_dict() and "embedding" not in dict(model.named_parameters())
    assert {"stacked.into.weight", "stacked.out.weight"} <= dict(model.named_parameters()).keys()
    assert model.embedding.equal(stacked().embedding)


def test_answers_are_compared_with_all_values_and_with_nothing_else():
    model = stacked()
    ids = torch.arange(8)[None]
    hidden = model(ids)
    assert model.head_weight.equal(model.embedding[HALF:])
    assert model.logits(hidden).shape == (1, 8, HALF)
    model.logits(hidden).sum().backward()
    assert all(p.grad is not None for p in model.stacked.parameters())


def test_token_by_token_is_the_whole():
    model, ids, state = stacked(learned_positions=7).eval(), torch.tensor([[3, 20, 41, 5, 11, 0, 2]]), None
    found = []
    for token in ids.split(1, dim=1):
        hidden, state = model.extend(token, state)
        found.append(hidden)
    assert torch.allclose(torch.cat(found, 1), model(ids))
    positions = torch.tensor([[4, 1]])
    assert torch.allclose(model(ids, positions), model(ids)[:, [4, 1]])


def test_a_head_of_its_own_is_refused():
    with pytest.raises(ValueError, match=r"model\.tie_embedding \(=False\) must be true"):
        stacked(tie_embedding=False)
