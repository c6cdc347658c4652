"""Shared by all tests: one thread, and every mixer that conf/mixer registers, with its variants."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_and_seeded() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
