"""The decode throughput of a record: which model has one, and that measuring it costs little."""

import time
from typing import Any

import pytest
import torch

from tests.registry import composer
from zoo.evaluation import decode_speed
from zoo.evaluation.decode_speed import BATCH, ENOUGH_S, decode_tokens_per_second
from zoo.model import SequenceModel, build_model


def model(*words: str) -> SequenceModel:
    return build_model(composer().cell(["d_model=16", "task.vocab_size=128", *words]))


def test_it_is_tokens_over_seconds_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        decode_speed, "_now", lambda device: next(clock) / 1000
    )  # every step takes a millisecond
    assert decode_tokens_per_second(model(), 64, "cpu") == pytest.approx(1000 * BATCH)


def test_a_slow_model_makes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_model_without_exact_decoding_has_none_and_training_goes_on_as_before() -> None:
    assert decode_tokens_per_second(model("mixer=nystromformer"), 64, "cpu") is None
    made = model().train()
    before = torch.get_rng_state()
    assert decode_tokens_per_second(made, 8, "cpu") and made.training
    assert torch.equal(before, torch.get_rng_state())
