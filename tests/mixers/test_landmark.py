"""Landmark attention: how a weight is shared out, what a landmark sees, and how many are kept."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.mixers.golden import from_yaml
from zoo.kernels.grouped_attention import grouped_attention
from zoo.mixers import Landmark
from zoo.mixers.base import Mixer

D, LENGTH = 16, 30


def make(**changes: Any) -> Mixer:
    torch.manual_seed(1)
    return Landmark(**({"d_model": D, "num_heads": 2, "block_size": 4} | changes)).double()


def tokens(length: int = LENGTH, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(1, length, D, dtype=torch.float64, generator=rng)


def weights(q: Tensor, k: Tensor, landmarks: Tensor, top_k: int | None = None) -> Tensor:
    """[T S]: what one head gives to each token, read off values that are unit vectors."""
    v = torch.eye(k.shape[2], dtype=k.dtype)[None, None]
    return grouped_attention(q, k, v, landmarks, 3, top_k)[0, 0]


def test_a_landmarks_weight_is_shared_out_over_its_block():
    """A query of zeros weighs all alike: the own tokens and the landmarks before, then inside a block."""
    k, landmarks = torch.randn(1, 1, 8, 4), torch.randn(1, 1, 2, 4)
    found = weights(torch.zeros(1, 1, 8, 4), k, landmarks)
    a, b, c = 1 / 9, 1 / 4, 1 / 4
    torch.testing.assert_close(found[4], torch.tensor([a, a, a, 1 / 3, 1 / 3, 0, 0, 0]))
    torch.testing.assert_close(found[7], torch.tensor([b / 3] * 6 + [c, c]))


def test_inside_a_block_the_tokens_compete_and_outside_the_landmarks_do():
    k, landmarks = torch.zeros(1, 1, 7, 2), torch.zeros(1, 1, 2, 2)
    k[0, 0, 1, 0], landmarks[0, 0, 1, 0] = 3.0, 2.0
    found = weights(torch.tensor([2**0.5, 0.0]).expand(1, 1, 7, 2), k, landmarks)[6]
    e = torch.tensor(1.0).exp()
    first, second, own = 1 / (2 + e**2), e**2 / (2 + e**2), 1 / (2 + e**2)
    inside = torch.stack([torch.ones([]), e**3, torch.ones([])]) / (2 + e**3)
    expected = torch.cat([first * inside, (second / 3).expand(3), own[None]])
    torch.testing.assert_close(found, expected)


def test_retrieval_leaves_the_best_landmarks_in_the_softmax():
    k, landmarks = torch.randn(1, 1, 12, 2), torch.zeros(1, 1, 4, 2)
    landmarks[0, 0, :, 0] = torch.tensor([1.0, 2.0, 1.0, 9.0])
    for top_k, blocks in ((1, [1]), (2, [0, 1]), (3, [0, 1, 2]), (9, [0, 1, 2])):
        found = weights(torch.ones(1, 1, 12, 2), k, landmarks, top_k)
        torch.testing.assert_close(found.sum(-1), torch.ones(12))
        assert (found[-1] > 0).nonzero().flatten().tolist() == [
            s for s in range(12) if s // 3 in [*blocks, 3]
        ]


@torch.no_grad()
@pytest.mark.parametrize("position", ["none", "rope"])
def test_retrieving_all_is_the_training_form(position: str):
    few, many, all_blocks = (make(top_k=k, position=position)(tokens()) for k in (2, 99, None))
    torch.testing.assert_close(many, all_blocks)
    torch.testing.assert_close(few[:, :12], all_blocks[:, :12])
    assert not torch.allclose(few[:, 12:], all_blocks[:, 12:])


def test_a_tokens_own_block_has_no_landmark_yet():
    mixer = make()
    y = mixer(tokens())
    grads = [torch.autograd.grad(row.sum(), mixer.landmark, retain_graph=True)[0] for row in y[0]]
    assert [bool((grad != 0).any()) for grad in grads] == [False] * 4 + [True] * (LENGTH - 4)


@torch.no_grad()
def test_a_landmark_stands_for_what_its_block_holds():
    x, other = tokens(12), tokens(12)
    other[:, 5] += 1
    (_, a), (_, b) = (make().extend(part) for part in (x, other))
    moved = (a.landmarks != b.landmarks).any(-1)[0]
    assert moved.tolist() == [[False, True, False]] * 2


def test_a_landmark_keeps_a_key_and_no_value():
    size = from_yaml("landmark", 64, block_size=50, num_heads=8, top_k=3).state_size(1024)
    assert size.paper is None
    assert size.resident == 2 * 64 * 1024 + 64 * 20
    assert size.touched == 2 * 64 * (24 + 3 * 50) + 64 * 20
