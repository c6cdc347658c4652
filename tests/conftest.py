"""Shared by all tests: one thread, and every mixer that conf/mixer registers, with its variants."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_and_seeded() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups of pytest-xdist stay together; a pytest that it does not know scatters them silently."""
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if getattr(session.config.option, "loadgroup", False) and any("@" not in item.nodeid for item in grouped):
        raise pytest.UsageError("this pytest ignores the groups of pytest-xdist: use that of constraints.txt")
