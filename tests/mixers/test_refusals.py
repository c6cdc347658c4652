"""Mixers refuse settings that cannot be, when they are built, in one line that names the setting."""

import re
from inspect import signature
from typing import Any

import pytest
import torch

import zoo.mixers
from zoo.mixers.named import stems

# fmt: off
REFUSED = {  # mixer -> setting -> values, each of which is refused by its name
    "Attention": {"position": "learned", "dropout": 1.0},
    "Based": {"feature_dim": 0, "denominator": "softmax", "eps": -1.0, "decay": "fixed"},
    "BMojo": {"window": 0, "num_eidetic": -1, "predictor_size": 0, "position": "alibi"},
    "BaseConv": {"kernel_size": 0, "activation": "gelu"},
    "BigBird": {"window": 0, "num_global": -1, "num_random": -1, "max_len": 4, "position": "alibi"},
    "Comba": {"expand_v": 0, "kernel_size": 0},
    "DeltaNet": {"kernel_size": 0},
    "ForgettingAttention": {"position": "alibi"},
    "GatedDeltaNet": {"expand_v": 0},
    "GatedDeltaProduct": {"num_householder": 0, "expand_v": 0},
    "GatedLinearAttention": {"feature_dim": 0, "gate_rank": 0, "temperature": 0.5},
    "GatedSlotAttention": {"num_slots": 1, "temperature": 0.5},
    "H3": {"d_state": (5, 0)},
    "HGRN2": {"feature_dim": 0, "layer": 2},
    "Hedgehog": {"feature_dim": 1},
    "KimiDeltaAttention": {"head_dim": 0, "kernel_size": 0},
    "LaCT": {"expand": 0, "chunk_size": 0, "window": 0, "position": "alibi"},
    "Landmark": {"block_size": 1, "top_k": 0, "position": "alibi"},
    "LightningAttention": {"num_heads": 0, "head_dim": 0, "layer": 2},
    "LlamaXL": {"segment_len": 0},
    "LogLinearMamba2": {"d_state": 0, "expand": 0, "max_len": 0, "kernel_size": 0},
    "LongConv": {"max_len": 1, "init": "ones", "squash": -0.1},
    "MLA": {"kv_rank": 0, "rope_dim": (3, -2)},
    "MLSTM": {"expand": 0},
    "Mamba": {"d_state": 0, "expand": 0, "dt_rank": 0, "kernel_size": 0},
    "Mamba2": {"d_state": 0, "expand": 0},
    "Mamba3": {"d_state": 0},
    "NSA": {"compress_block_size": 6, "block_size": 6, "top_k": 2, "local_blocks": 0, "initial_blocks": -1,
            "window": 0, "position": "alibi"},
    "Nystromformer": {"num_landmarks": 0, "num_iterations": 0, "kernel_size": 4},
    "RGLRU": {"d_inner": 0, "kernel_size": 0},
    "RWKV4": {"expand": 0, "layer": (2, -1), "n_layers": 0},
    "RWKV5": {"head_dim": (0, 1), "layer": 2},
    "RWKV6": {"head_dim": 1, "shift_rank": 0, "decay_rank": 0},
    "RWKV7": {"head_dim": 1, "rank": 0, "layer": 2},
    "RetNet": {"expand": 0},
    "S2Attn": {"group_size": 5, "num_kv_heads": 1},
    "S4D": {"d_state": 5, "discretization": "euler"},
    "SEAttn": {"chunk_size": 10, "eval_chunk_size": (6, 0), "chunk_sampling": "often", "max_blocks": 0,
               "top_k": -1, "selection": "best", "retrieval": "per_head", "position": "alibi",
               "summary": "last", "score_rope": "both", "gate": "sigmoid"},
    "ScatterBrain": {"window": 0, "num_features": 0, "position": "alibi"},
    "SnapKV": {"budget": 8, "recent": 0},
    "SlidingWindow": {"position": "learned", "window": 0},
    "TTTLinear": {"mini_batch": 0, "expand": -1},
    "Yaad": {"delta": (0.0, -1.0), "power": 3.0},
    "Moneta": {"power": 1.5},
}
OTHERS = [  # mixer, settings, and what the refusal names
    ("Attention", {"num_kv_heads": 3}, "num_heads (=1)"),
    ("SlidingWindow", {"num_kv_heads": 3}, "num_heads (=1)"),
    ("BaseConv", {"d_model": 3, "expand": 1}, "expand * d_model (=3)"),
    ("BaseConv", {"kernel_size": -1, "emb_dim": 3}, "emb_dim (=3)"),
    ("BaseConv", {"kernel_size": -1, "emb_dim": 6}, "emb_dim (=6)"),
    ('BaseConv', {'kernel_size': -1, 'filter': 'fixed'}, "filter (='fixed')"),
    ("BaseConv", {"kernel_size": -1, "max_len": 1}, "max_len (=1)"),
    ("H3", {"head_dim": 3}, "d_model (=8)"),
    ("CosFormer", {"feature_map": {"max_len": 0}}, "max_len (=0)"),
    ("Performer", {"feature_map": {"num_features": 0}}, "num_features (=0)"),
    ("AllPoly", {"feature_map": {"num_features": 0}}, "num_features (=0)"),
    ("DPFP", {"feature_map": {"nu": 0}}, "nu (=0)"),
    ("DPFP", {"feature_map": {"nu": 8}, "feature_dim": 4}, "nu (=8)"),
    ("RWKV5", {"head_dim": 5}, "d_model (=8)"),
    ("SEAttn", {"chunk_size": [8, 10]}, "chunk_size (=10)"),
    ("SEAttn", {"chunk_size": []}, "number of sizes in chunk_size (=0)"),
    ("SEAttn", {"chunk_size": [4, 8]}, "chunk_size (=[4, 8]) has several sizes: set chunk_sampling"),
    ("SEAttn", {"chunk_size": [4, 8], "chunk_sampling": "per_chunk"}, "chunk_size (=[4, 8])"),
    ("SEAttn", {"block_size": 0}, "chunk_size (=16) must be a positive multiple of block_size (=0)"),
    ("SEAttn", {"num_heads": 4, "num_kv_heads": 3}, "num_heads (=4)"),
    ("SEAttn", {"gate": "bias", "selection": "first"}, "gate (='bias') needs selection token or prefix"),
    ("Attention", {"position": "rope", "rope_fraction": 0.1}, "rope_fraction * head_dim (=0.1 * 8)"),
    ("KimiDeltaAttention", {"num_heads": 0, "head_dim": 4}, "num_heads (=0)"),
    ("LlamaXL", {"num_heads": 8}, "rope_fraction * head_dim (=1.0 * 1)"),
    ("Mamba2", {"head_dim": 5}, "expand * d_model (=16)"),
    ("Mamba2", {"num_groups": 3}, "the number of heads (=1)"),
    ("Mamba3", {"d_state": 3}, "rope_fraction * d_state (=0.5 * 3)"),
    ("Mamba3", {"head_dim": 5}, "expand * d_model (=16)"),
    ("Mamba3", {"rope_fraction": 2.0}, "rope_fraction * d_state (=2.0 * 16)"),
    ("MLSTM", {"block_size": 5}, "expand * d_model (=16)"),
    ("NSA", {"num_kv_heads": 3}, "num_heads (=2)"),
    ("RetNet", {"feature_dim": 3}, "rope_fraction * head_dim (=1.0 * 3)"),
    ("RWKV7", {"head_dim": 5}, "d_model (=8)"),
    ("RWKV7", {"gate_rank": 0}, "rank (=0)"),
    ("S2Attn", {"num_heads": 1}, "num_kv_heads (=1)"),
    ("TTTLinear", {"num_heads": 8}, "rope_fraction * head_dim (=1.0 * 1)"),
]
# fmt: on
ALONE = [
    (name, key, value)
    for name, settings in REFUSED.items()
    for key, values in settings.items()
    for value in (values if isinstance(values, tuple) else (values,))
]
TOO_SHORT = {
    "CosFormer": {"feature_map": {"max_len": 20}},
    **{name: {"max_len": 20} for name in ("Hyena", "LogLinearMamba2", "LogLinearGatedDeltaNet")},
}
WITH_HEADS = [name for name in stems() if "num_heads" in signature(getattr(zoo.mixers, name)).parameters]


def refusal(name: str, **settings: Any) -> str:
    with pytest.raises(ValueError) as refused:
        getattr(zoo.mixers, name)(**({"d_model": 8} | settings))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(("name", "key", "value"), ALONE)
def test_an_impossible_setting_is_refused_by_its_name(name: str, key: str, value: Any):
    assert refusal(name, **{key: value}).startswith(f"{key} (={value!r})")


@pytest.mark.parametrize(("name", "settings", "named"), OTHERS)
def test_settings_that_do_not_fit_are_refused(name: str, settings: dict[str, Any], named: str):
    assert refusal(name, **settings).startswith(named)


@pytest.mark.parametrize("name", WITH_HEADS)
def test_heads_that_do_not_divide_the_width_are_refused(name: str):
    assert re.search(r"multiple of (num_heads \(=3\)|2, one half of the heads)", refusal(name, num_heads=3))


@pytest.mark.parametrize("name", TOO_SHORT)
def test_a_sequence_that_is_too_long_is_refused_with_the_fix(name: str):
    mixer, x = getattr(zoo.mixers, name)(d_model=8, **TOO_SHORT[name]), torch.randn(1, 21, 8)
    _, state = mixer.extend(x[:, :20])
    for refused in (lambda: mixer(x), lambda: mixer.extend(x[:, 20:], state)):
        with pytest.raises(ValueError, match=r"max_len \(=20\) must cover the sequences: raise it to 21\."):
            refused()
