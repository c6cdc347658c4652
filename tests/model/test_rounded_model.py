"""A model that rounds its state computes the same as the evaluation that rounds any model's state."""

from typing import Any

import pytest
import torch

from tests.model.test_model import VOCAB, config, ids, layers_of
from tests.registry import cases
from zoo.evaluation.coded_state import coder_for
from zoo.mixers.cases import build
from zoo.model import SequenceModel, model_from_config
from zoo.model.codecs.codec import NO_SCALE, Form
from zoo.model.rounded_model import RoundedModel
from zoo.model.written_once import tensors

DECODES = sorted({case.name for case in cases() if build(case).exact_decode})
LENGTH, EVERY = 11, 4
INT3 = {"format": "int3", "every": EVERY}
NOT_SYMMETRIC = {"mesanet"}  # a rounded sum of outer products is not, and solved otherwise
INDEXER_LOSS = {"dsa"}  # its indexer's, a mean over each part that is read


def model_of(name: str, codec: dict[str, Any] | None) -> SequenceModel:
    built = model_from_config(config(layers_of(name), init_std=1.0, state_codec=codec), VOCAB)
    return built.double().eval()


@pytest.mark.parametrize("mixer", sorted({*DECODES} - NOT_SYMMETRIC))
def test_a_rounded_model_computes_as_the_evaluation_does(mixer: str) -> None:
    inputs, plain = ids(LENGTH), model_of(mixer, None)
    coder = coder_for(plain, [Form("fp32", NO_SCALE), Form(**INT3)], seed=0)
    expected = coder.extend(plain, inputs.repeat(2, 1), None)[0][2:]
    rounded = model_of(mixer, INT3)
    assert torch.allclose(rounded(inputs), expected, atol=1e-3)
    exact = dict(tensors(plain.extend(inputs)[1]))
    moved = [name for name, leaf in tensors(rounded.extend(inputs)[1]) if not torch.equal(leaf, exact[name])]
    assert moved or not exact


@pytest.mark.parametrize("mixer", sorted({*DECODES} - INDEXER_LOSS))
def test_gradients_pass_as_if_nothing_was_rounded(mixer: str) -> None:
    """They equal those of the plain model with fp32, and reach the same parameters with int3."""
    whole, parts, rounded = (
        model_of(mixer, codec) for codec in (None, {"format": "fp32", "every": EVERY}, INT3)
    )
    length = 37 if mixer == "lact" else LENGTH  # before its second chunk ends some weights do nothing
    for model in (whole, parts, rounded):
        model(ids(length)).square().sum().backward()
    for (name, one), other, last in zip(
        whole.named_parameters(), parts.parameters(), rounded.parameters(), strict=True
    ):
        assert one.grad is not None and other.grad is not None and last.grad is not None, name
        assert torch.allclose(one.grad, other.grad, rtol=1e-2, atol=1e-3 * float(one.grad.abs().max())), name
        assert bool(last.grad.any()) == bool(one.grad.any()), name


@pytest.mark.parametrize("mixer", ["linear_attention", "gated_deltanet", "mamba2"])
def test_a_threshold_leaves_small_writes_out_and_keeps_large_ones_exact(mixer: str) -> None:
    model = model_of(mixer, {"format": "int3", "rounding": "threshold"})
    _, before = model.extend(ids(LENGTH))
    after = dict(tensors(model.extend(ids(1, seed=5), before)[1]))
    exact = dict(tensors(SequenceModel.extend(model, ids(1, seed=5), before)[1]))
    entries = model.entries if isinstance(model, RoundedModel) else {}
    first = [name for name, _ in tensors(before) if name.startswith("[0]") and name not in entries]
    for name in first:
        old, x = dict(tensors(before))[name], exact[name]
        step = (x.abs().amax(-1, keepdim=True) / 3).bfloat16().float()  # a channel's largest entry is code 3
        expected = torch.where((x - old).abs() < step / 2, old, x)
        assert torch.equal(after[name], expected), name
        assert (expected == old).any() and (expected == x).any(), name


@pytest.mark.parametrize("format", ["fp32", "int3"])
def test_the_evaluations_format_replaces_that_of_the_model(format: str) -> None:
    inputs, form = ids(LENGTH), Form(format, NO_SCALE if format == "fp32" else "key", every=2)
    plain, rounded = model_of("based", None), model_of("based", INT3)
    one, other = (coder_for(m, [form], 0).extend(m, inputs, None)[0] for m in (plain, rounded))
    assert torch.equal(one, other) and not torch.equal(one, rounded(inputs))


def test_a_wrong_codec_is_refused_by_its_place_in_the_config() -> None:
    with pytest.raises(ValueError, match=r"^model.state_codec: format \(='int5'\) must be one of"):
        model_of("based", {"format": "int5"})


def test_a_model_of_stacked_inputs_tells_its_caches_from_its_sums() -> None:
    settings = config(layers_of("based"), state_codec=INT3, tie_embedding=True)
    rounded = model_from_config(settings, VOCAB, stacked=True).eval()
    plain = model_from_config(config(layers_of("based"), tie_embedding=True), VOCAB, stacked=True).eval()
    plain.load_state_dict(rounded.state_dict())
    assert not torch.equal(rounded(ids(LENGTH)), plain(ids(LENGTH)))
