"""For tests on a device."""

import pytest
import torch
from torch import Tensor


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel does not write is NaN."""
    new_empty, empty_like, empty = Tensor.new_empty, torch.empty_like, torch.empty

    def poison(x: Tensor) -> Tensor:
        return x.fill_(torch.nan) if x.is_floating_point() and not x.is_meta else x

    monkeypatch.setattr(Tensor, "new_empty", lambda x, *a, **k: poison(new_empty(x, *a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poison(empty_like(*a, **k)))
    monkeypatch.setattr(torch, "empty", lambda *a, **k: poison(empty(*a, **k)))
