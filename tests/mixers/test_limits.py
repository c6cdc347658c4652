"""Mixers that are others in a limit; floors, rates, slots and signs that their settings state."""

from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import pytest
import torch

from tests.mixers.built import X, built
from zoo import mixers
from zoo.mixers import HGRN2, Raven
from zoo.mixers.base import Mixer
from zoo.mixers.named import stems


@dataclass(frozen=True)
class Limit:
    """A mixer that equals another, whose weights it has but for `weights`; with `otherwise` it does not."""

    name: str
    settings: dict[str, Any]
    other: str
    others: dict[str, Any]
    both: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    otherwise: dict[str, Any] = field(default_factory=dict)


PLAIN, TWO = {"num_heads": 2, "bias": False}, {"num_heads": 2}
SHARED = {"num_heads": 4, "num_kv_heads": 2, "bias": False}
TURNED, NEAR, PARTS = SHARED | {"position": "rope"}, SHARED | {"window": 5}, {"segment_len": 4}
SPANS, RETRIEVE = {"top_k": 99, "chunk_size": 8}, ("token", "first", "prefix", "prev", "random", "chunk")
LIMITS = [
    *(Limit(rule, {"budget": 30}, "Attention", {}, SHARED) for rule in ("H2O", "TOVA", "SnapKV")),
    Limit("H2O", {"budget": 5, "recent": 5}, "SlidingWindow", {"window": 6}, PLAIN),
    Limit("StreamingLLM", {"num_sinks": 0}, "SlidingWindow", {}, SHARED | {"window": 6}),
    Limit("StreamingLLM", {"num_sinks": 0}, "SlidingWindow", {}, TURNED | {"window": 6}),
    Limit("StreamingLLM", {"num_sinks": 4, "window": 26}, "Attention", {}, TURNED),
    Limit("StreamingLLM", {"num_sinks": 3}, "BigBird", {"num_global": 3, "num_random": 0}, NEAR),
    *(Limit("SEAttn", SPANS | {"selection": rule}, "Attention", {}, TURNED) for rule in RETRIEVE),
    Limit("DeepSeekSparseAttention", {"top_k": 30}, "Attention", {}, SHARED),
    Limit("DeltaFormer", {}, "Attention", {}, PLAIN, {"beta.weight": 0, "beta.bias": -1e4}),
    Limit("MemoryCaching", PARTS | {"gated": False}, "MemoryCaching", {"segment_len": 30}, TWO),
    Limit("MemoryCaching", {"top_k": 7}, "MemoryCaching", {}, PARTS, otherwise={"top_k": 2}),
    Limit("MixtureOfMemories", {"num_memories": 1, "top_k": 1}, "GatedDeltaNet", {}, {"expand_v": 2}),
    Limit("GatedDeltaProduct", {"num_householder": 1}, "GatedDeltaNet", {}, TWO | {"allow_neg_eigval": True}),
    Limit("QDelta", {}, "GatedDeltaNet", {}, TWO, {"share.weight": -1e3}),
    Limit("PreconditionedGatedDeltaNet", {"base": 1 + 1e-12}, "GatedDeltaNet", {}, TWO, {}, {"base": 2.0}),
    Limit("PreconditionedKDA", {"base": 1 + 1e-12}, "KimiDeltaAttention", {}, TWO, {}, {"base": 2.0}),
    Limit("Moneta", {"power": 2 + 1e-9}, "TitansMLP", {}, {}),
    *(
        Limit(name, {key: limit}, "TitansMLP", {}, {"expand": expand}, {}, {key: away})
        for expand in (0, 2)
        for name, key, limit, away in (("Yaad", "delta", 1e9, 0.1), ("Moneta", "power", 2.0, 3.0))
    ),
]


def like(mixer: Mixer, other: Mixer) -> Mixer:
    """Load the other's weights, as far as the mixer has them."""
    mixer.load_state_dict(other.state_dict(), strict=False)
    return mixer


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.name} {limit.settings} {limit.both}")
def test_a_mixer_equals_another_in_the_limit(limit: Limit):
    other = built(limit.other, **limit.both, **limit.others)
    mixer = like(built(limit.name, **limit.both, **limit.settings), other)
    x = 3 * (X.abs() if limit.weights else X)  # a weight of -1e3 is to give a large negative number
    assert not limit.weights or not torch.allclose(mixer(x), other(x), rtol=1e-3)
    for name, value in limit.weights.items():
        torch.nn.init.constant_(mixer.get_parameter(name), value)
    torch.testing.assert_close(mixer(x), other(x))
    if limit.otherwise:
        away = like(built(limit.name, **limit.both, **limit.settings | limit.otherwise), other)
        assert not torch.allclose(away(x), other(x), rtol=1e-3)


def test_five_steps_bring_a_memory_of_low_rank_to_ones_alone():
    mixer = built("MLSTMOrthogonal", num_heads=2)
    S = torch.randn(64, 4, dtype=torch.float64) @ torch.randn(4, 64, dtype=torch.float64)
    sizes = torch.linalg.svdvals(mixer._orthogonal(S))
    assert (sizes[:4] > 0.99).all() and (sizes[4:] < 1e-9).all()


def test_a_row_begins_by_itself_whatever_the_others_did():
    """The public sLSTM asks of the whole batch whether this is the first step."""
    mixer = built("SLSTM", num_heads=2)
    _, state = mixer.extend(X)
    zero = [part.clone() for part in state[:4]]
    for part, first in zip(zero, (0.0, 0.0, 0.0, -torch.inf), strict=True):
        part[0] = first
    tail = state.tail.clone()
    tail[0] = 0
    y, _ = mixer.extend(X, type(state)(*zero, tail))
    torch.testing.assert_close(y[0], mixer(X)[0])
    torch.testing.assert_close(y[1], mixer.extend(X, state)[0][1])


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_no_gate_falls_below_the_floor_of_its_layer(layer: int):
    mixer = HGRN2(d_model=8, num_heads=2, layer=layer, n_layers=4).double()
    f = torch.linspace(-200, 200, 401, dtype=torch.float64)[:, None].expand(1, -1, 8)
    log_decay, k = mixer._gates(f)
    assert log_decay.exp().min().item() == pytest.approx(layer / 4, abs=1e-7)
    assert log_decay.max() <= 0
    torch.testing.assert_close(k, 1 - log_decay.exp(), rtol=0, atol=1e-14)
    assert (k > 0).all(), "1 - a as a difference rounds to 0, and the gate is then stuck"


def test_floors_are_learned_without_decay_and_the_lowest_layer_has_none():
    assert HGRN2(d_model=8, num_heads=2, layer=0, n_layers=2).floor_logit is None
    floor = HGRN2(d_model=8, num_heads=2, layer=1, n_layers=2).floor_logit
    assert floor.requires_grad and floor.no_weight_decay


def decay_factors(layer: int, n_layers: int, num_heads: int = 4) -> list[float]:
    """Return the share of its first key that each head keeps after one more token, read off the state."""
    mixer = built("LightningAttention", 8, num_heads=num_heads, head_dim=2, layer=layer, n_layers=n_layers)
    x = torch.randn(1, 1, 8, dtype=torch.float64)
    _, state = mixer.extend(x)
    _, later = mixer.extend(torch.zeros_like(x), state)  # writes nothing
    return (later.kv / state.kv)[0, :, 0, 0].tolist()


def test_heads_forget_at_the_rates_of_the_released_model():
    """A quarter, a sixteenth, ... at the lowest layer; next to nothing at the highest."""
    rates = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.float64)
    for layer, share in ((0, 1 + 1e-5), (1, 0.5 + 1e-5), (2, 1e-5)):
        assert decay_factors(layer, 3) == pytest.approx((-rates * share).exp().tolist(), rel=1e-12)
    assert decay_factors(0, 1) == pytest.approx((-rates * (1 + 1e-5)).exp().tolist(), rel=1e-12)


def test_ties_go_to_the_lowest_slot():
    mixer = Raven(d_model=16, num_heads=1, num_slots=6, num_chosen=2).double()
    torch.nn.init.zeros_(mixer.keep.weight)
    assert ((mixer._log_decay(X) < 0) == torch.tensor([True, True, False, False, False, False])).all()


MAY_TURN = [name for name in stems() if "allow_neg_eigval" in signature(getattr(mixers, name)).parameters]


@pytest.mark.parametrize("name", MAY_TURN)
def test_a_write_turns_an_old_answer_around_only_where_it_may(name: str):
    """The definitions read this factor of beta off the mixer."""
    assert built(name, num_heads=2, allow_neg_eigval=False).most == 1.0
    assert built(name, num_heads=2, allow_neg_eigval=True).most == 2.0
