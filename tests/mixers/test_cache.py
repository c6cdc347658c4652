"""A cache that grows in place is what concatenation gives, whoever else goes on from the same state."""

import pytest
import torch
from torch import Tensor

from zoo.mixers.cache import append, owned


def entries(count: int, seed: int) -> Tensor:
    return torch.randn(2, 3, count, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_appending_is_concatenation_and_copies_each_entry_a_bounded_number_of_times(off: type):
    held, whole, buffers = entries(5, 0), entries(5, 0), set()
    for step in range(1, 60):
        new = entries(1, step)
        with off():
            held, whole = append(held, new, dim=2), torch.cat([whole, new], dim=2)
        buffers.add(held.untyped_storage().data_ptr())
        assert torch.equal(held, whole)
    assert len(buffers) <= 4  # 12, 26, 54, 110 entries


@torch.no_grad()
@pytest.mark.parametrize("view", [lambda x: x[:, :, 1:], lambda x: x[:, :, :3], lambda x: x[1:]])
def test_a_part_of_a_cache_is_not_taken_for_the_whole(view):
    whole = append(entries(5, 0), entries(1, 1), dim=2)
    copy, part = whole.clone(), view(whole)
    new = torch.zeros_like(part[:, :, :1])
    assert torch.equal(append(part, new, dim=2), torch.cat([view(copy), new], dim=2))
    assert torch.equal(whole, copy)


def test_a_view_of_an_activation_becomes_a_copy_and_a_whole_tensor_stays():
    activation, whole = torch.zeros(100, 8), torch.zeros(4)
    tail, same, counter = owned((activation[-3:], whole, 7))
    assert tail.untyped_storage().nbytes() == 3 * 8 * 4 and same is whole and counter == 7
