"""Parameters that set rates, shares and time scales do not decay in training; all matrices do."""

from fnmatch import fnmatch

import pytest
import torch

from zoo.mixers.base import Mixer
from zoo.mixers.cases import CONF, cases_of, settings
from zoo.mixers.named import stems
from zoo.model.instantiate import make

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
def test_what_sets_time_scales_is_free_of_weight_decay_and_nothing_else_is(name: str):
    with torch.device("meta"):
        mixer = make(settings(cases_of(name, CONF)[-1]), Mixer)  # of several, the highest layer
    patterns = FREE.get(name, "").split()
    for parameter, p in mixer.named_parameters():
        free = any(fnmatch(parameter, pattern) for pattern in patterns)
        assert getattr(p, "no_weight_decay", False) == free, parameter
    assert all(any(fnmatch(n, pattern) for n, _ in mixer.named_parameters()) for pattern in patterns)
