"""No input makes a mixer overflow, at any length, in both precisions, at the edge of what float32 holds."""

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from tests.mixers.built import LINEAR
from tests.registry import cases
from zoo import mixers
from zoo.config.targets import make
from zoo.mixers import MLSTM, RGLRU, GatedLinearAttention, GatedSlotAttention, Mamba, Mamba3, PathAttention
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, awake, settings
from zoo.mixers.diagonal_ssm import DiagonalSSM

LONG = 4096  # tokens, half of them of a FEW: without changes to the yaml, at the scales LENGTHENED
SHORT, SHORTER = 300, 150  # tokens elsewhere: of the test of all SCALES, of that of a FEW
SCALES, LENGTHENED = (1e-3, 1e-2, 0.1, 1, 10, 100, 1000), (1, 100)  # of the inputs
FEW = (1e-3, 100, 1000)  # of these; the last of LENGTHENED among them


def built(case: Case) -> Mixer:
    """Build the mixer in float32, as it trains, with room for LONG tokens where its length is limited."""
    torch.default_generator.manual_seed(0)
    return awake(make(_roomy(settings(case)), Mixer))


def _roomy(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    return {k: LONG if k == "max_len" and isinstance(v, int) else _roomy(v) for k, v in node.items()}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["few", "every"])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_outputs_and_gradients_are_finite(case: Case, every: bool):
    """Inputs are long in float32, where a state is kept and grows whatever its products are rounded to."""
    scales, lengthened = (SCALES, LENGTHENED) if every else (FEW, LENGTHENED[-1:])
    short, long = (SHORT, LONG) if every else (SHORTER, LONG // 2)
    with torch.random.fork_rng():
        mixer = built(case)
    for precision in ("float32", "bfloat16")[: 2 if every or not case.changes else 1]:
        longer = lengthened if every or precision == "float32" else ()
        for scale in scales:
            check_finite(mixer, scale, precision, short if case.changes or scale not in longer else long)


def check_finite(mixer: Mixer, scale: float, precision: str, length: int) -> None:
    mixer.zero_grad()
    x = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(1)) * scale
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else nullcontext():
        y = mixer(x)
    assert y.isfinite().all(), f"outputs of inputs times {scale}"
    y.float().square().mean().backward()
    for name, tensor in [("input", x), *mixer.named_parameters()]:
        assert tensor.grad is None or tensor.grad.isfinite().all(), f"{name}, {scale}"
    assert x.grad is not None


def assert_finite(mixer: Mixer, x: torch.Tensor) -> torch.Tensor:
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())
    return y


def test_gla_forgets_down_to_exp_of_hundreds():
    mixer = GatedLinearAttention(d_model=16, num_heads=2, temperature=1.0)
    torch.nn.init.normal_(mixer.decay_out.weight, std=3.0)
    assert_finite(mixer, 100 * torch.randn(1, 4096, 16))


def test_rg_lru_s_shut_gate_has_finite_gradients():
    """A shut gate has a = 1, where the root of 1 - a^2 has no gradient."""
    mixer = RGLRU(d_model=8, num_heads=2)
    torch.nn.init.constant_(mixer.gate_bias, -300.0)
    assert_finite(mixer, torch.randn(2, 20, 8))


def test_mlstm_s_input_gates_may_lie_beyond_the_range_of_exp():
    """exp(200) is inf in float32, and its square in float64 too."""
    mixer, x = MLSTM(d_model=8, num_heads=2), torch.randn(2, 40, 8)
    with torch.no_grad():
        mixer.gates.bias[:2] = 200
    y = assert_finite(mixer, x)
    with torch.no_grad():
        mixer.gates.bias[:2] = 30  # large enough for |n q| > 1, where all that counts is the gates' ratio
        torch.testing.assert_close(y, mixer(x), rtol=1e-4, atol=1e-4)


def test_gated_slots_that_write_little_still_learn():
    """1 - a of a gate near 1 is taken as expm1: a difference is 0 in float32, and so is its gradient."""
    mixer, x = GatedSlotAttention(d_model=8, num_heads=1), torch.ones(1, 3, 8)
    torch.nn.init.constant_(mixer.keep.weight, 20 / 8)
    _, state = mixer.extend(x)
    assert (state.values != 0).all()
    state.values.sum().backward()
    assert (mixer.keep.weight.grad != 0).all()


def test_mamba_3_s_angles_do_not_round_as_they_add_up():
    """4,096 steps of hundreds of radians each; a running sum in float32 would be off by 0.1."""
    mixer, x = Mamba3(d_model=8, d_state=4), 300 * torch.randn(1, 4096, 8)
    with torch.no_grad():
        _, state = mixer.extend(x)
        _, exact = mixer.double().extend(x.double())
    gap = (state.angle - exact.angle).abs()
    assert torch.minimum(gap, 2 * math.pi - gap).max() < 2e-2
    assert state.angle.min() >= 0 and state.angle.max() < 2 * math.pi + 1e-6


@torch.no_grad()
def test_mamba_decodes_in_bfloat16():
    mixer, x = Mamba(d_model=16).bfloat16(), torch.randn(2, 7, 16).bfloat16()
    y, state = mixer.extend(x[:, :6])
    y = torch.cat([y, mixer.extend(x[:, 6:], state)[0]], dim=1)
    torch.testing.assert_close(y, mixer(x), rtol=0.02, atol=0.02)


@torch.no_grad()
def test_keys_of_path_attention_keep_their_length_under_whole_reflections():
    """beta = 2 is a reflection; what is kept never grows, however many tokens pass."""
    mixer, x = PathAttention(d_model=16, num_heads=2), torch.randn(1, 2000, 16)
    mixer.beta_proj.bias.fill_(50)
    _, state = mixer.extend(x)
    torch.testing.assert_close(state.k.norm(dim=-1), mixer.qkv(x)[1].norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_a_diagonal_kernel_holds_over_long_sequences_in_single_precision():
    torch.manual_seed(0)
    single, exact = DiagonalSSM(8, 32), DiagonalSSM(8, 32).double()
    exact.load_state_dict(single.state_dict())
    error = (single.kernel(4096).double() - exact.kernel(4096)).abs().max()
    assert error < 1e-3 * exact.kernel(4096).abs().max()


@pytest.mark.parametrize("rule", ["zoh", "bilinear"])
def test_large_steps_of_a_diagonal_kernel_stay_stable(rule: str):
    """Real parts are negative by construction: no training step can make the kernel grow."""
    ssm = DiagonalSSM(4, 8, rule)
    with torch.no_grad():
        ssm.log_dt.fill_(3.0)
        kernel = ssm.kernel(300)
    assert kernel.isfinite().all() and kernel[:, -1].abs().max() <= kernel[:, 1:].abs().max()


HEADS = {"num_heads": 2}
SUMS = {  # name -> settings, the parts of its state that are sums
    **dict.fromkeys(LINEAR, (HEADS | {"feature_dim": 4, "output_norm": True}, ("kv",))),
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


@pytest.mark.parametrize("name", SUMS)
def test_bfloat16_keeps_its_state_in_float32(name: str):
    settings, parts = SUMS[name]
    mixer, x = getattr(mixers, name)(d_model=16, **settings), torch.randn(2, 70, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = mixer.extend(x)
    assert {getattr(state, part).dtype for part in parts or state._fields} == {torch.float32}
    atol = 2e-2 if name in ("GatedLinearAttention", "RetNet") else 5e-2
    torch.testing.assert_close(y.float(), mixer(x), rtol=5e-2, atol=atol)
