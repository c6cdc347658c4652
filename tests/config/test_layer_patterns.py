"""The named hybrids have their layers where their papers have them."""

import pytest
import torch

from tests.registry import compose
from zoo.mixers.laws import elements
from zoo.model import build_model


def places(*overrides: str) -> dict[str, list[int]]:
    """Class of the mixer -> the layers it stands in."""
    found: dict[str, list[int]] = {}
    for i, layer in enumerate(compose([*overrides, "d_model=16"]).config["model"]["layers"]):
        found.setdefault(layer["_target_"].split(".")[-1], []).append(i)
    return found


@pytest.mark.parametrize(
    ("choices", "minority"),
    [
        (["model=mamba2_hybrid", "mixer=mamba2"], "Attention"),
        (["model=se_attn_hybrid", "mixer=se_attn"], "SEAttn"),
    ],
)
def test_the_mamba2_hybrid_has_the_published_number_of_attention_layers(choices: list[str], minority: str):
    layers = places(*choices, "n_layers=64")
    assert layers[minority] == [5, 15, 25, 35, 45, 55]
    assert len(layers["Mamba2"]) == 58


def test_griffin_is_two_recurrent_layers_and_a_window_with_one_key_head():
    cell = compose(["model=griffin", "mixer=mamba", "mixer.d_state=3", "d_model=16", "n_layers=6"])
    layers = cell.config["model"]["layers"]
    assert [layer.get("window") for layer in layers] == [None, None, 64] * 2
    assert [layer.get("d_state") for layer in layers] == [3, 3, None] * 2
    assert layers[2]["num_kv_heads"] == 1


def test_jamba_has_one_attention_in_eight():
    assert places("model=jamba", "mixer=mamba", "n_layers=32")["Attention"] == [4, 12, 20, 28]


def test_zamba_calls_one_attention_after_every_sixth_layer():
    assert places("model=zamba", "mixer=mamba", "n_layers=21")["SharedAttention"] == [6, 13, 20]
    model = build_model(compose(["model=zamba", "mixer=mamba", "d_model=16"]))
    assert model.mixers[6].qkv is model.mixers[13].qkv


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["mamba2_hybrid", "se_attn_hybrid", "griffin", "zamba", "jamba", "samba", "yoco"]
)
def test_every_pattern_decodes_as_it_trains_and_holds_what_it_says(name: str):
    model = build_model(compose([f"model={name}", "d_model=8", "task=mqar"])).double().eval()
    inputs = torch.randint(20, (1, 30))
    head, state = model.extend(inputs[:, :17])
    tail, state = model.extend(inputs[:, 17:], state)
    torch.testing.assert_close(torch.cat([head, tail], 1), model(inputs), rtol=1e-8, atol=1e-10)
    assert elements(state.layers) == model.state_size(30).resident
