"""Log-linear Mamba-2 refuses what is longer than its levels; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import LogLinearMamba2


def test_a_sequence_longer_than_the_levels_is_refused():
    mixer = LogLinearMamba2(d_model=8, d_state=2, max_len=9)
    _, state = mixer.extend(torch.randn(1, 9, 8))
    with pytest.raises(ValueError, match=r"max_len \(=9\) must cover the sequences: raise it to 10\."):
        mixer.extend(torch.randn(1, 1, 8), state)
