"""Preconditioned delta rules: erase by k, write by m k, Tumma et al. 2026 (arXiv 2604.21100)."""

import torch
from torch import Tensor

from tests.definitions import gated_deltanet
from tests.definitions import kimi_delta_attention as kda
from zoo.mixers.preconditioned import PreconditionedGatedDeltaNet, PreconditionedKDA, Preconditioner

PACKAGE = "fla-core: fla.ops.{precond_gated_delta_rule,precond_kda}.naive"
PACKAGE_TOLERANCE = 1e-3  # they work in float32
Mixer = PreconditionedGatedDeltaNet | PreconditionedKDA


def inputs(m: Mixer, x: Tensor) -> tuple[Tensor, ...]:
    """q, k: [B T H C], v: [B T H V], beta: [B T H], log alpha: [B T H C]."""
    if isinstance(m, PreconditionedGatedDeltaNet):
        q, k, v, beta, log_alpha = gated_deltanet.inputs(m, x)
        return q, k, v, beta, log_alpha[..., None].expand_as(k)
    q, k, v, raw, beta = kda.inputs(m, x)
    return q, k, v, beta, -torch.exp(m.A_log)[:, None] * torch.log1p(torch.exp(raw))


def of_moment(p: Preconditioner, x: Tensor) -> tuple[Tensor, Tensor]:
    """The second moment's log decay and share: [B T H]."""
    step = torch.log1p(torch.exp(x @ p.forget.proj.weight.T + p.forget.dt_bias))
    return -torch.exp(p.forget.A_log) * step, torch.sigmoid(x @ p.share.weight.T)


def output(m: Mixer, y: Tensor, x: Tensor) -> Tensor:
    return (gated_deltanet if isinstance(m, PreconditionedGatedDeltaNet) else kda).output(m, y, x)


def definition(m: Mixer, x: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = inputs(m, x)
    decay, share = of_moment(m.preconditioner, x)
    A, S, ys = 0, x.new_zeros(x.shape[0], m.num_heads, m.head_dim, v.shape[-1]), []
    for t in range(x.shape[1]):
        A = torch.exp(decay[:, t, :, None]) * A + share[:, t, :, None] * k[:, t] ** 2
        r = torch.log(A + 1e-6) - m.preconditioner.center[:, None]
        written = k[:, t] * m.preconditioner.base ** (-r / (1 + abs(r)))
        S = torch.exp(log_alpha[:, t, :, :, None]) * S
        error = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhkv,bhk->bhv", S, k[:, t]))
        S = S + written[..., None] * error[:, :, None, :]
        ys.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]) / m.head_dim**0.5)
    return output(m, torch.stack(ys, dim=1), x)


def package(m: Mixer, x: Tensor) -> Tensor:
    from fla.ops.precond_gated_delta_rule.naive import naive_recurrent_precond_gated_delta_rule
    from fla.ops.precond_kda.naive import naive_recurrent_precond_kda

    q, k, v, beta, log_alpha = inputs(m, x)
    decay, share = of_moment(m.preconditioner, x)
    settings = {"x": m.preconditioner.base, "log_atk_scale": m.preconditioner.center}
    if isinstance(m, PreconditionedGatedDeltaNet):
        y = naive_recurrent_precond_gated_delta_rule(
            q, k, v, decay, log_alpha[..., 0], share, beta, **settings
        )[0]
    else:
        settings["log_atk_scale"] = settings["log_atk_scale"][:, None]
        y = naive_recurrent_precond_kda(q, k, v, log_alpha, decay, share, beta, **settings)[0]
    return output(m, y.to(x.dtype), x)
