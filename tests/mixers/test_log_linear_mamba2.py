"""Log-linear Mamba-2: how its memory grows, and its limit."""

import pytest
import torch

from zoo.mixers import LogLinearMamba2


@pytest.mark.parametrize(
    ("seq_len", "pieces"), [(1, 1), (7, 3), (8, 1), (1023, 10), (1024, 1), (1025, 2), (65535, 16)]
)
def test_there_is_a_state_for_each_power_of_two_in_the_length(seq_len: int, pieces: int):
    mixer = LogLinearMamba2(d_model=64, d_state=16)
    tail = 3 * (128 + 2 * 16)
    assert mixer.state_size(seq_len).resident == pieces * 128 * 16 + tail


def test_each_piece_is_read_with_a_weight_of_its_own():
    """With the weight of one level turned off, the outputs that read such a piece change and no others."""
    mixer = LogLinearMamba2(d_model=8, d_state=3, head_dim=4, kernel_size=1).double()
    x = torch.randn(1, 16, 8, dtype=torch.float64)
    with torch.no_grad():
        before = mixer(x)
        for level in range(5):
            weight = mixer.level_weight.clone()
            mixer.level_weight[:, level] += 1
            moved = (mixer(x) - before)[0].abs().amax(-1) > 1e-9
            mixer.level_weight.copy_(weight)
            assert moved.tolist() == [level == 0 or t >> level - 1 & 1 == 1 for t in range(16)], level


def test_a_sequence_longer_than_the_levels_is_refused():
    mixer = LogLinearMamba2(d_model=8, d_state=2, max_len=9)
    _, state = mixer.extend(torch.randn(1, 9, 8))
    with pytest.raises(ValueError, match=r"max_len \(=9\) must cover the sequences: raise it to 10\."):
        mixer.extend(torch.randn(1, 1, 8), state)
