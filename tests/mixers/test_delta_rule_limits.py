"""Delta rules: what they are in the limit, how much they may take away, and public mistakes."""

from inspect import signature

import pytest
import torch

from zoo import mixers
from zoo.mixers.base import Mixer
from zoo.mixers.named import stems

MAY_TURN = [name for name in stems() if "allow_neg_eigval" in signature(getattr(mixers, name)).parameters]
X = torch.randn(2, 40, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(name: str, **settings: object) -> Mixer:
    torch.manual_seed(0)
    return getattr(mixers, name)(d_model=16, num_heads=2, **settings).double()


@pytest.mark.parametrize("name", MAY_TURN)
def test_a_write_turns_an_old_answer_around_only_where_it_may(name: str):
    """The definitions read this factor of beta off the mixer."""
    assert built(name, allow_neg_eigval=False).most == 1.0
    assert built(name, allow_neg_eigval=True).most == 2.0


def test_one_gate_for_both_is_kimi_delta_attention():
    mixer = built("GatedDeltaNet2")
    other = built("KimiDeltaAttention")
    with torch.no_grad():
        rows = torch.randn(2, 1, 16, dtype=torch.float64)
        mixer.beta.weight.copy_(rows.expand(2, 8, 16).flatten(0, 1).repeat(2, 1))
        other.beta.weight.copy_(rows[:, 0])
    own = {key: value for key, value in mixer.state_dict().items() if key != "beta.weight"}
    other.load_state_dict(own, strict=False)
    torch.testing.assert_close(mixer(X), other(X))


def test_a_query_without_a_share_is_gated_deltanet():
    mixer, other = built("QDelta"), built("GatedDeltaNet")
    other.load_state_dict(mixer.state_dict(), strict=False)
    assert not torch.allclose(mixer(X), other(X))
    positive = X.abs()
    torch.nn.init.constant_(mixer.share.weight, -1e3)
    torch.testing.assert_close(mixer(positive), other(positive))


@pytest.mark.parametrize(
    ("name", "base"),
    [("PreconditionedGatedDeltaNet", "GatedDeltaNet"), ("PreconditionedKDA", "KimiDeltaAttention")],
)
def test_base_one_preconditions_nothing(name: str, base: str):
    mixer, other = built(name), built(base)
    mixer.preconditioner.base = 1.0
    other.load_state_dict(mixer.state_dict(), strict=False)
    torch.testing.assert_close(mixer(X), other(X))
    assert not torch.allclose(built(name, base=2.0)(X), built(base)(X))


def test_the_error_of_a_token_pairs_its_own_e_with_earlier_keys():
    """Q-Delta's public chunks pair e_j with k_i: what two tokens leave then depends on the chunk's size."""
    mixer = built("QDelta", kernel_size=1)
    (q, k, v), _ = mixer.qkv(X[:1, :2], None)
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    share = torch.sigmoid(mixer.share(X[:1, :2]) - 0.9).mT
    beta, alpha = mixer.beta(X[:1, :2]).sigmoid().mT, mixer.forget(X[:1, :2]).exp()
    e = k[:, :, 1] + share[:, :, 1, None] * q[:, :, 1]
    first = beta[:, :, 0, None] * v[:, :, 0]
    read = alpha[:, :, 1, None] * (e * k[:, :, 0]).sum(-1, keepdim=True) * first
    second = beta[:, :, 1, None] * (v[:, :, 1] - read)
    kept = alpha[:, :, 1, None, None] * k[:, :, 0, :, None] * first[:, :, None]
    _, state = mixer.extend(X[:1, :2])
    torch.testing.assert_close(state.memory, kept + k[:, :, 1, :, None] * second[:, :, None])
