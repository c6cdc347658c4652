"""Initial values that a paper or its code states (docs/initial_weights.md), and weight decay."""

import math
from fnmatch import fnmatch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo import mixers
from zoo.config.targets import make
from zoo.mixers.base import Mixer
from zoo.mixers.cases import CONF, cases_of, settings
from zoo.mixers.mesanet import RIDGE_LEAST
from zoo.mixers.named import stems


def fresh(name: str, **settings: object) -> Mixer:
    torch.manual_seed(3)
    return getattr(mixers, name)(**settings)


def check_spread(x: Tensor, std: float, rel: float = 0.05) -> None:
    assert x.std().item() == pytest.approx(std, rel=rel)


def check_log_uniform(dt: Tensor, low: float = 1e-3, high: float = 1e-1, near: float = 0.2) -> None:
    """Mean in the middle, spread of a box; step sizes of thousands of heads reach both ends."""
    assert dt.min() >= 0.999 * low and dt.max() <= 1.001 * high
    assert dt.log().mean().item() == pytest.approx((math.log(low) + math.log(high)) / 2, abs=near)
    check_spread(dt.log(), math.log(high / low) / math.sqrt(12), 0.2)
    assert dt.numel() < 1000 or (dt.min() < 1.1 * low and dt.max() > 0.9 * high)


@pytest.mark.parametrize(
    ("name", "settings", "low"),
    [
        ("GatedDeltaNet", {"d_model": 4096, "num_heads": 2048}, 0.0),
        ("KimiDeltaAttention", {"d_model": 8, "num_heads": 2048, "head_dim": 2}, 1.0),
    ],
)
def test_decays_of_the_gated_delta_rules(name: str, settings: dict[str, int], low: float):
    """A uniform on (0, 16) or (1, 16), step sizes log-uniform; neither drawn to 0 by weight decay."""
    mixer = fresh(name, **settings)
    decays = getattr(mixer, "forget", mixer)
    A = decays.A_log.exp()
    assert A.min() >= 0.999 * low and A.min() > 0 and A.max() <= 16.001
    assert A.mean().item() == pytest.approx((16 + low) / 2, rel=0.05)
    check_spread(A, (16 - low) / math.sqrt(12))
    check_log_uniform(F.softplus(decays.dt_bias), near=0.15)


def test_comba():
    mixer = fresh("Comba", d_model=8, num_heads=2, correction=0.5)
    assert (mixer.feedback.sigmoid() == 1 / (1 + math.exp(-1))).all()
    assert (mixer.correction == 0.5).all()


def test_forgetting_attention_s_gates_start_at_gate_bias():
    assert fresh("ForgettingAttention", d_model=16, num_heads=4).gate.bias.eq(0).all()
    assert fresh("ForgettingAttention", d_model=16, num_heads=4, gate_bias=2.0).gate.bias.eq(2).all()


def test_gla():
    mixer = fresh("GatedLinearAttention", d_model=64, num_heads=2)
    for proj in (mixer.q, mixer.v, mixer.gate, mixer.decay_in, mixer.decay_out, mixer.out_proj):
        check_spread(proj.weight, 2**-2.5 * (2 / sum(proj.weight.shape)) ** 0.5, 0.08)
    assert (mixer.decay_out.bias == 0).all()


def test_retnet():
    mixer = fresh("RetNet", d_model=64, num_heads=2)
    for proj, fan in ((mixer.q, 128), (mixer.k, 128), (mixer.v, 192), (mixer.gate, 192)):
        check_spread(proj.weight, 2**-2.5 * (2 / fan) ** 0.5)
    check_spread(mixer.out_proj.weight, (2 / 192) ** 0.5)


def test_h3_is_s4d_lin():
    keep = fresh("H3", d_model=128, d_state=32).keep
    torch.testing.assert_close(-keep.A_log_real.exp(), torch.full((64, 16), -0.5))
    torch.testing.assert_close(keep.A_imag, math.pi * torch.arange(16.0).expand(64, 16))
    check_log_uniform(keep.log_dt.exp(), near=0.4)
    assert torch.view_as_complex(keep.C).abs().square().mean().item() == pytest.approx(1, rel=0.1)


def test_h3_s_shift_is_its_filter_and_is_drawn():
    shift = fresh("H3", d_model=64, d_state=16).shift
    w = shift.taps()
    torch.testing.assert_close(w[:, 1:], shift.C[:, 1:])
    torch.testing.assert_close(w[:, 0], shift.C[:, 0] + shift.D)
    assert shift.C.abs().max() <= 0.25
    check_spread(shift.C, 0.25 / math.sqrt(3), 0.1)


def test_mamba():
    mixer = fresh("Mamba", d_model=64, d_state=8, n_layers=4)
    check_log_uniform(F.softplus(mixer.dt_proj.bias), near=0.4)
    assert mixer.dt_rank == 4 and mixer.dt_proj.weight.abs().max() <= 4**-0.5
    check_spread(mixer.dt_proj.weight, 4**-0.5 / math.sqrt(3), 0.1)
    torch.testing.assert_close(-mixer.A_log.exp(), -torch.arange(1.0, 9.0).expand(128, 8))
    assert (mixer.D == 1).all()
    check_spread(mixer.out_proj.weight, 128**-0.5 / math.sqrt(3) / 2)


@pytest.mark.parametrize("name", ["Mamba2", "Mamba3"])
def test_mamba_2_and_3(name: str):
    mixer = fresh(name, d_model=512, d_state=8, head_dim=4, n_layers=4)
    check_log_uniform(F.softplus(mixer.dt_bias))
    if name == "Mamba2":
        A, ones = mixer.A_log.exp(), (mixer.D, mixer.norm_weight)
        assert A.min() >= 1 and A.max() <= 16 and A.mean().item() == pytest.approx(8.5, abs=0.9)
    else:
        ones = mixer.B_bias, mixer.C_bias, mixer.B_norm.weight, mixer.C_norm.weight, mixer.D
    assert all((part == 1).all() for part in ones)
    check_spread(mixer.out_proj.weight, 1024**-0.5 / math.sqrt(3) / 2)


def test_mesanet_s_first_ridge_is_one():
    mixer = fresh("MesaNet", d_model=8, num_heads=2)
    torch.testing.assert_close(F.softplus(mixer.ridge) + RIDGE_LEAST, torch.ones(2, 4))


def test_mlstm():
    mixer = fresh("MLSTM", d_model=64, num_heads=4, n_layers=2)
    write, keep = mixer.gates.bias.chunk(2)
    torch.testing.assert_close(keep, torch.tensor([3.0, 4.0, 5.0, 6.0]))
    assert write.abs().max() < 0.5 and (write != 0).all()
    assert (mixer.gates.weight == 0).all() and (mixer.skip == 1).all() and (mixer.norm_weight == 1).all()
    for weight, std in ((mixer.in_proj.weight, (2 / 320) ** 0.5), (mixer.qkv, (2 / 320) ** 0.5)):
        check_spread(weight, std)
    check_spread(mixer.out_proj.weight, 2 / 2 / 8)


def test_rg_lru():
    mixer = fresh("RGLRU", d_model=64, num_heads=4, d_inner=512)
    decay = torch.sigmoid(mixer.Lambda) ** 8
    assert decay.min() >= 0.9 - 1e-4 and decay.max() <= 0.999 + 1e-4
    assert decay.mean().item() == pytest.approx(0.9495, abs=0.005)
    check_spread(decay, 0.099 / 12**0.5, 0.1)
    check_spread(mixer.gate_weight, 128**-0.5)
    assert (mixer.gate_bias == 0).all() and mixer.Lambda.no_weight_decay


FREE = {  # mixer -> patterns of the parameters without decay, in a layer that is not the lowest
    "bmojo": "ssm.A_log ssm.D",
    "bmojo_f": "ssm.A_log ssm.D",
    "comba": "correction feedback forget.A_log forget.dt_bias",
    "differential_attention": "exponents",
    "gated_deltanet": "forget.A_log forget.dt_bias",
    "gated_deltanet_2": "A_log dt_bias",
    "gated_deltaproduct": "forget.A_log forget.dt_bias",
    "h3": "keep.A_imag keep.A_log_real keep.D keep.log_dt shift.B shift.D",
    "hgrn2": "floor_logit",
    "hyena": "filter.* skip",
    "kimi_delta_attention": "A_log dt_bias",
    "log_linear_mamba2": "A_log D dt_bias level_weight",
    "log_linear_gated_deltanet": "forget.A_log forget.dt_bias level_weight",
    "mamba": "A_log D",
    "mamba2": "A_log D dt_bias",
    "mamba3": "D dt_bias",
    "mesanet": "ridge",
    "mixture_of_memories": "forget.A_log forget.dt_bias",
    "preconditioned_gated_deltanet": "*forget.A_log *forget.dt_bias *center",
    "preconditioned_kda": "*A_log *dt_bias *center",
    "q_delta": "forget.A_log forget.dt_bias",
    "raven": "forget.A_log forget.dt_bias",
    "rg_lru": "Lambda",
    "rwkv4": "bonus decay shift.share",
    "rwkv5": "decay heads.bonus heads.norm.* shift.share",
    "rwkv6": "decay.* heads.bonus heads.norm.* shift.*",
    "rwkv7": "decay.* gate.* k_a k_k norm.* r_k rate.* share.* shift.share",
    "s4d": "ssm.A_imag ssm.A_log_real ssm.D ssm.log_dt",
}


@pytest.mark.parametrize("name", sorted(stems().values()))
def test_only_parameters_of_time_scales_are_free_of_weight_decay(name: str):
    with torch.device("meta"):
        mixer = make(settings(cases_of(name, CONF)[-1]), Mixer)  # of several, the highest layer
    patterns = FREE.get(name, "").split()
    for parameter, p in mixer.named_parameters():
        free = any(fnmatch(parameter, pattern) for pattern in patterns)
        assert getattr(p, "no_weight_decay", False) == free, parameter
    assert all(any(fnmatch(n, pattern) for n, _ in mixer.named_parameters()) for pattern in patterns)
