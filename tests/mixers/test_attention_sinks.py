"""Attention sinks where public code has them wrong; definitions: tests/definitions."""

import torch

from zoo.mixers import SinkLogit, SlidingWindow
from zoo.mixers.base import Mixer

HEADS = {"d_model": 16, "num_heads": 4, "num_kv_heads": 2, "bias": False}
X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def agree(one: Mixer, other: Mixer) -> None:
    one.load_state_dict(other.state_dict(), strict=False)
    torch.testing.assert_close(one.double()(X), other.double()(X))


def test_a_sink_logit_far_below_is_none_and_far_above_takes_all():
    mixer, window = SinkLogit(**HEADS, window=6), SlidingWindow(**HEADS, window=6)
    torch.nn.init.constant_(mixer.sink, -1e4)
    agree(mixer, window)
    torch.nn.init.constant_(mixer.sink, 1e4)
    assert not mixer(X).any()


def test_decoding_has_the_sink_logit_once():
    """Split-key kernels count it twice or drop it, and a served model forgot it when it decoded."""
    mixer = SinkLogit(**HEADS, window=6).double()
    torch.nn.init.constant_(mixer.sink, 2.0)
    _, state = mixer.extend(X[:, :-1])
    torch.testing.assert_close(mixer.extend(X[:, -1:], state)[0], mixer(X)[:, -1:])
