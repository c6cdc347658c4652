"""Stacked inputs of two tokens, the decoder behind the blocks, and the speed of decoding."""

import math
import time
from typing import Any

import pytest
import torch

from tests.model.test_model import COUNTER, config
from tests.registry import compose, composer
from zoo.blocks.decoder import sinusoids
from zoo.evaluation import decode_speed
from zoo.evaluation.decode_speed import BATCH, ENOUGH_S, decode_tokens_per_second
from zoo.mixers.laws import in_parts
from zoo.model import SequenceModel, build_model, model_from_config
from zoo.tasks.build import build_task
from zoo.training.loss import answers_loss

VOCAB, HALF = 12, 6


def stacked(**model: object) -> SequenceModel:
    return model_from_config(config([COUNTER], **model), VOCAB, stacked=True).double()


def test_a_stacked_input_has_the_embeddings_of_key_and_value():
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


def test_stacked_embeddings_are_fixed_unit_vectors():
    model = stacked()
    assert torch.allclose(model.embedding.norm(dim=1), torch.ones(VOCAB).double())
    assert "embedding" in model.state_dict() and "embedding" not in dict(model.named_parameters())
    assert {"stacked.into.weight", "stacked.out.weight"} <= dict(model.named_parameters()).keys()
    assert model.embedding.equal(stacked().embedding)


def test_stacked_logits_are_over_the_values():
    model = stacked()
    ids = torch.arange(8)[None]
    hidden = model(ids)
    assert model.head_weight.equal(model.embedding[HALF:])
    assert model.logits(hidden).shape == (1, 8, HALF)
    model.logits(hidden).sum().backward()
    assert all(p.grad is not None for p in model.stacked.parameters())


def test_a_stacked_model_decodes_token_by_token():
    model, ids = stacked(learned_positions=7).eval(), torch.tensor([[3, 20, 41, 5, 11, 0, 2]])
    assert torch.allclose(in_parts(model, ids, [*range(1, 7)])[0], model(ids))
    positions = torch.tensor([[4, 1]])
    assert torch.allclose(model(ids, positions), model(ids)[:, [4, 1]])


def test_a_stacked_model_with_a_separate_head_is_refused():
    with pytest.raises(ValueError, match=r"model\.tie_embedding \(=False\) must be true"):
        stacked(tie_embedding=False)


COMPRESSION = ["task=mad_compression", "mixer=sliding_window", "d_model=16"]


def test_the_decoder_computes_answers_from_the_last_vector():
    cell = compose(COMPRESSION)
    model, task = build_model(cell).double(), build_task(cell.config)
    batch = task.sample("train", 0, range(3))
    output = model(batch.inputs, batch.positions)
    assert model.decoder is not None and type(model.decoder.layers[0]) is type(model.blocks[0].norm)
    assert output.shape == (3, 32, 16) and not output[:, 0].allclose(output[:, 1])

    inputs: list[torch.Tensor] = []
    model.decoder.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    model(batch.inputs, batch.positions)
    (hidden,) = inputs
    assert hidden.equal(hidden[:, :1].expand_as(hidden)), "the decoder reads only the last vector"

    _, first, _, _, second, _ = model.decoder.layers
    norm = lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()  # noqa: E731
    gelu = torch.nn.functional.gelu
    sines = torch.tensor(
        [[f(i / 10_000 ** (k / 7)) for f in (math.sin, math.cos) for k in range(8)] for i in range(32)]
    )
    x = gelu(norm(hidden + sines.double()) @ first.weight.T + first.bias)
    x = gelu(norm(x) @ second.weight.T + second.bias)
    assert model.final_norm(x).allclose(output, atol=1e-5)


def test_every_part_of_the_decoder_learns_and_other_models_have_none():
    model = build_model(compose(COMPRESSION))
    assert model.decoder is not None
    answers_loss(model, build_task(compose(COMPRESSION).config).sample("train", 0, range(3))).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.decoder.parameters())
    assert build_model(compose([*COMPRESSION[1:], "task=mqar"])).decoder is None


def test_sinusoids_of_an_odd_width_are_cut():
    assert sinusoids(4, 5, torch.device("cpu")).equal(sinusoids(4, 6, torch.device("cpu"))[:, :5])


def model(*words: str) -> SequenceModel:
    return build_model(composer().cell(["d_model=16", "task.vocab_size=128", *words]))


def test_decode_speed_is_tokens_over_the_seconds_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))  # every step takes a millisecond
    monkeypatch.setattr(decode_speed, "_now", lambda device: next(clock) / 1000)
    assert decode_tokens_per_second(model(), 64, "cpu") == pytest.approx(1000 * BATCH)


def test_decode_speed_of_a_slow_model_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model()
    extend, steps = made.extend, []

    def slow(*given: Any) -> object:
        steps.append(given)
        time.sleep(0.2)
        return extend(*given)

    monkeypatch.setattr(made, "extend", slow)
    rate = decode_tokens_per_second(made, 64, "cpu")
    assert len(steps) <= 2 + ENOUGH_S / 0.2
    assert rate is not None and rate <= BATCH / 0.2


def test_decode_speed_needs_exact_decoding_and_changes_no_state() -> None:
    assert decode_tokens_per_second(model("mixer=nystromformer"), 64, "cpu") is None
    made = model().train()
    before = torch.get_rng_state()
    assert decode_tokens_per_second(made, 8, "cpu") and made.training
    assert torch.equal(before, torch.get_rng_state())
