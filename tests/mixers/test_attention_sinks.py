"""Attention sinks: what they become in the limit, and where public code has them wrong."""

import pytest
import torch

from zoo.mixers import Attention, BigBird, SinkLogit, SlidingWindow, StreamingLLM
from zoo.mixers.base import Mixer

HEADS = {"d_model": 16, "num_heads": 4, "num_kv_heads": 2, "bias": False}
X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def agree(one: Mixer, other: Mixer) -> None:
    one.load_state_dict(other.state_dict(), strict=False)
    torch.testing.assert_close(one.double()(X), other.double()(X))


@pytest.mark.parametrize("position", ["none", "rope"])
def test_without_sinks_it_is_the_window(position: str):
    agree(
        StreamingLLM(**HEADS, num_sinks=0, window=6, position=position),
        SlidingWindow(**HEADS, window=6, position=position),
    )


def test_where_all_tokens_fit_it_is_attention():
    agree(StreamingLLM(**HEADS, num_sinks=4, window=26, position="rope"), Attention(**HEADS, position="rope"))


def test_without_positions_it_is_bigbird_without_random_tokens():
    agree(
        StreamingLLM(**HEADS, num_sinks=3, window=5), BigBird(**HEADS, num_global=3, window=5, num_random=0)
    )


def test_a_sink_is_no_further_away_however_long_the_sequence_is():
    """The same tokens in the cache give the same answer: how many were evicted between them is not seen."""
    mixer = StreamingLLM(**HEADS, num_sinks=2, window=4, position="rope").double()
    shorter = torch.cat([X[:, :2], X[:, -8:]], dim=1)
    torch.testing.assert_close(mixer(shorter)[:, -1], mixer(X)[:, -1])


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
