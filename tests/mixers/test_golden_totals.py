"""State of published models after 1024 tokens: a BaseConv and the mixer, or two layers of the mixer."""

import pytest
from hydra.utils import instantiate

from tests.mixers.built import built, two_layers
from tests.registry import compose
from zoo.mixers import Mamba2
from zoo.mixers.state import StateSize, total


def size(*overrides: str) -> StateSize:
    layers = compose(list(overrides)).config["model"]["layers"]
    return total(instantiate(layer, _convert_="all").state_size(1024) for layer in layers)


@pytest.mark.parametrize(("d_model", "paper", "resident"), [(64, 131264, 131200), (128, 262528, 262400)])
def test_attention(d_model: int, paper: int, resident: int):
    assert size("mixer=attention", f"d_model={d_model}") == StateSize(paper, resident, resident)


@pytest.mark.parametrize(
    ("d_model", "feature_dim", "paper", "resident"),
    [
        (48, 8, 2349, 2301), (48, 16, 7641, 7593), (48, 24, 16069, 16021),
        (64, 8, 3117, 3053), (64, 16, 10137, 10073), (64, 24, 21317, 21253),
        (128, 8, 6189, 6061), (128, 16, 20121, 19993), (128, 24, 42309, 42181),
    ],
)  # fmt: skip
def test_based(d_model: int, feature_dim: int, paper: int, resident: int):
    sizes = size("mixer=based", f"d_model={d_model}", f"mixer.feature_dim={feature_dim}")
    assert sizes == StateSize(paper, resident, resident)


@pytest.mark.parametrize(
    ("block_size", "paper", "resident"), [(8, 2432, 2304), (64, 16768, 16640), (1024, 262528, 262400)]
)
def test_sliding_window(block_size: int, paper: int, resident: int):
    """The published block_size shows block_size + 1 keys and is counted as block_size of them."""
    counted = size("mixer=sliding_window", "d_model=128", f"mixer.window={block_size}")
    wider = size("mixer=sliding_window", "d_model=128", f"mixer.window={block_size + 1}")
    assert (counted.paper, wider.resident, wider.touched) == (paper, resident, resident)


PURE = [  # two layers of the mixer, nothing before them; published counts leave the tails of convolutions out
    ("attention", 16, {"num_heads": 4, "num_kv_heads": 1}, 65536, 16384),  # shared heads keep less
    ("sliding_window", 16, {"num_heads": 4, "window": 7, "num_kv_heads": 1}, 2 * 2 * 16 * 7, 2 * 2 * 4 * 6),
    ("bigbird", 64, {"window": 12, "num_global": 8, "num_random": 8}, 2 * 2 * 7 * 4 * 64, 6912),
    ("bigbird", 64, {"window": 384, "num_global": 256, "num_random": 256}, 2 * 2 * 7 * 128 * 64, 191744),
    ("mamba", 64, {"d_state": 8}, 2048, 2816),
    ("mamba", 64, {"d_state": 24}, 6144, 6912),
    ("mamba", 256, {"d_state": 8}, 8192, 11264),
    ("mamba", 256, {"d_state": 24}, 24576, 27648),
    ("mamba2", 64, {"d_state": 8}, 2048, 2912),
    ("mamba2", 128, {"d_state": 16}, 8192, 9920),
    ("mamba2", 256, {"d_state": 24}, 24576, 27936),
    ("hyena", 64, {}, 131072, 131840),
    ("hyena", 256, {}, 524288, 527360),
    ("h3", 64, {"d_state": 16}, 2048, 6016),
    ("h3", 256, {"d_state": 64}, 32768, 97792),
    ("deltanet", 64, {}, 4096, 5248),  # d^2 / 2 a layer, and 9 d
    ("deltanet", 256, {}, 65536, 70144),
    ("gated_deltanet", 64, {}, 8192, 9728),  # 2 d^2 / heads a layer, and 12 d
    ("gated_deltanet", 256, {}, 131072, 137216),
    ("gated_deltaproduct", 64, {"num_householder": 1}, None, 9728),  # one memory, longer tails
    ("gated_deltaproduct", 64, {"num_householder": 4}, None, 13184),
    ("kimi_delta_attention", 64, {}, 4096, 5248),
    ("kimi_delta_attention", 128, {}, 16384, 18688),
    ("gated_slot_attention", 64, {"num_slots": 64}, 16384, 16384),  # 2 slots d a layer
    ("gated_slot_attention", 128, {"num_slots": 32}, 16384, 16384),
    ("gla", 64, {}, 2048, 2048),  # d^2 / 4 a layer
    ("gla", 256, {}, 32768, 32768),
    ("hgrn2", 64, {"num_heads": 2}, 4096, 4096),  # d times the expansion a layer
    ("hgrn2", 128, {"num_heads": 4}, 8192, 8192),
    ("retnet", 64, {"num_heads": 2}, 8192, 8192),  # 2 d^2 / heads a layer
    ("retnet", 128, {"num_heads": 4}, 16384, 16384),
    ("mesanet", 64, {"num_heads": 2}, None, 8960),
    ("rwkv4", 64, {}, None, 512),  # four vectors a layer
    ("rwkv7", 64, {}, 8192, 8320),  # and the token shift
    ("rwkv7", 256, {}, 32768, 33280),
    ("s4d", 64, {"d_state": 64}, 8192, 8192),
    ("long_conv", 64, {"max_len": 256}, 2 * 1024 * 64, 2 * 255 * 64),
    ("nystromformer", 128, {"num_heads": 1, "num_landmarks": 16}, 8192, 262144),
    ("linear_identity", 64, {"num_heads": 4}, 2048, 2048),  # features by value channels of each head
    ("cosformer", 64, {}, 2 * 32 * 65, 2 * 32 * 65),
    ("performer", 64, {"feature_map": {"num_features": 256}}, 2 * 256 * 65, 2 * 256 * 65),
    ("scatterbrain", 64, {"num_heads": 2, "window": 16, "num_features": 32}, 8320, 8064),  # 2 sums of 2112
]


@pytest.mark.parametrize(("name", "d_model", "settings", "paper", "resident"), PURE)
def test_pure_stacks(name: str, d_model: int, settings: dict, paper: int, resident: int):
    sizes = two_layers(name, d_model, 1024, **settings)
    assert sizes == StateSize(paper, resident, resident)


def test_the_language_models_layers():
    layers = compose(["mixer=based", "model=based_lm", "n_layers=27", "d_model=64"]).config["model"]["layers"]
    kinds = [layer["_target_"].rsplit(".")[-1] for layer in layers]
    assert [i for i, kind in enumerate(kinds) if kind == "LinearAttention"] == [1, 6, 11, 16, 21, 26]
    assert [i for i, kind in enumerate(kinds) if kind == "SlidingWindow"] == [2, 7, 12, 17, 22]
    assert layers[0]["expand"] == 4
    assert layers[2]["position"] == "rope"


def test_a_landmark_keeps_a_key_and_no_value():
    size = built("landmark", 64, block_size=50, num_heads=8, top_k=3).state_size(1024)
    assert size == StateSize(None, 2 * 64 * 1024 + 64 * 20, 2 * 64 * (24 + 3 * 50) + 64 * 20)


def test_heads_of_mamba_2_are_64_wide_where_they_can_be():
    made = [Mamba2(d_model=width, d_state=4) for width in (16, 64, 128)]
    assert [(mixer.num_heads, mixer.head_dim) for mixer in made] == [(1, 32), (2, 64), (4, 64)]
