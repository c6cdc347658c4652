"""BigBird's pattern is fixed and drawn evenly; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import BigBird


def test_the_pattern_is_a_function_of_seed_and_position_alone():
    """zoology draws its random entries anew at every call, in evaluation too."""
    make = {"d_model": 8, "num_heads": 1, "window": 3, "num_global": 2, "num_random": 6, "max_len": 40}
    torch.manual_seed(1)
    first = BigBird(**make)
    torch.manual_seed(2)
    again, other = BigBird(**make), BigBird(**make, seed=1)
    assert first.columns == again.columns != other.columns
    assert len(set(first.columns)) == 6 and min(first.columns) >= 2 and max(first.columns) < 40
    whole, part = (first.visible(torch.eye(n, dtype=torch.bool)) for n in (40, 25))
    assert torch.equal(whole[:25, :25], part)


def test_every_position_is_drawn_equally_often():
    make = {"d_model": 8, "num_heads": 1, "window": 1, "num_global": 1, "num_random": 2, "max_len": 11}
    with torch.device("meta"):  # no weights
        columns = [BigBird(**make, seed=seed).columns for seed in range(500)]
    drawn = torch.tensor(columns)
    counts = drawn.flatten().bincount(minlength=11)
    assert counts[0] == 0
    assert counts[1:].min() > 60 and counts[1:].max() < 145  # 100 expected, 9 a standard deviation


@pytest.mark.parametrize(("block", "paper"), [(4, 2 * 7 * 4 * 64), (128, 2 * 7 * 128 * 64)])
def test_the_published_count(block: int, paper: int):
    mixer = BigBird(d_model=64, num_heads=1, window=3 * block, num_global=2 * block, num_random=2 * block)
    assert mixer.state_size(1024).paper == paper


def test_a_whole_sequence_s_mask_is_made_once_and_those_of_other_lengths_stay():
    """A recorded step reads the memory that it was recorded on again."""
    mixer = BigBird(d_model=8, num_heads=2, window=4, num_global=1, num_random=2, max_len=16)
    x = torch.randn(1, 12, 8)
    first = mixer._places(0, 12, x.device)
    mixer(x[:, :7])
    parts = [
        mixer(x),
        torch.cat([(head := mixer.extend(x[:, :5]))[0], mixer.extend(x[:, 5:], head[1])[0]], 1),
    ]
    assert all(a is b for a, b in zip(first, mixer._places(0, 12, x.device), strict=True))
    torch.testing.assert_close(parts[0], parts[1])
