"""Under autocast to bfloat16, what a mixer keeps stays in float32, and its outputs are near."""

import pytest
import torch

from zoo import mixers

HEADS = {"num_heads": 2}
KEPT = {  # name -> settings, the parts of its state that are sums
    "ForgettingAttention": (HEADS, ("decay",)),
    "GatedLinearAttention": (HEADS, ("kv",)),
    "GatedSlotAttention": (HEADS, ("keys", "values")),
    "HGRN2": (HEADS, ("kv",)),
    "MLSTM": (HEADS, ("C", "n", "m")),
    "Mamba2": ({"d_state": 4}, ("h",)),
    "Mamba3": ({"d_state": 4}, None),  # all of them
    "RGLRU": (HEADS, ("h",)),
    "RetNet": (HEADS, ("kv",)),
    "S4D": ({"d_state": 8}, ("modes",)),
}


@pytest.mark.parametrize("name", KEPT)
def test_bfloat16_keeps_its_state_in_float32(name: str):
    settings, parts = KEPT[name]
    mixer, x = getattr(mixers, name)(d_model=16, **settings), torch.randn(2, 70, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = mixer.extend(x)
    assert {getattr(state, part).dtype for part in parts or state._fields} == {torch.float32}
    atol = 2e-2 if name in ("GatedLinearAttention", "RetNet") else 5e-2
    torch.testing.assert_close(y.float(), mixer(x), rtol=5e-2, atol=atol)
