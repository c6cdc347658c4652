"""Fixtures of tests on a device."""

import json
import os
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import HELD

if os.environ.get("TRITON_INTERPRET") == "1":
    from tests.kernels.quick_interpreter import quicken

    quicken()


@pytest.fixture(autouse=True)
def reported(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Report the errors and bounds of each comparison in pytest's XML."""
    HELD.clear()
    yield
    if HELD:
        record_property("distances", json.dumps([(one.name, one.error, one.bound) for one in HELD]))
    end_if_lost()


def end_if_lost() -> None:
    """End a worker whose device fails after an illegal access: xdist starts another in its place."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        os._exit(1)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill new tensors with NaN, which stays where a kernel does not write."""
    new_empty, empty_like, empty = Tensor.new_empty, torch.empty_like, torch.empty

    def poison(x: Tensor) -> Tensor:
        return x.fill_(torch.nan) if x.is_floating_point() and not x.is_meta else x

    monkeypatch.setattr(Tensor, "new_empty", lambda x, *a, **k: poison(new_empty(x, *a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poison(empty_like(*a, **k)))
    monkeypatch.setattr(torch, "empty", lambda *a, **k: poison(empty(*a, **k)))
