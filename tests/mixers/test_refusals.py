"""Mixers refuse settings that cannot be, when they are built, in one line that names the setting."""

import re
from inspect import signature
from typing import Any

import pytest

import zoo.mixers
from zoo.mixers.named import stems

# fmt: off
REFUSED = {  # mixer -> setting -> values, each of which is refused by its name
    "Attention": {"position": "learned"},
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
    "RWKV7": {"head_dim": 1, "rank": 0, "layer": 2},
    "RetNet": {"expand": 0},
    "S2Attn": {"group_size": 5, "num_kv_heads": 1},
    "S4D": {"d_state": 5, "discretization": "euler"},
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
