"""Compute p-values for statistical tests: with fixed seeds, about one suite in 10,000 fails by chance."""

from itertools import pairwise
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from tests.tasks.made import task
from zoo.tasks.base import Task
from zoo.tasks.mqar import MQAR

TESTS = 60  # at least as many as there are checks, for Bonferroni
ALPHA = 1e-4 / TESTS


def mqar(seq_len: int, num_kv_pairs: int, **changes: Any) -> Task:
    usual = {"vocab_size": 8192, "power_a": 0.01, "num_passes": 1, "filler": "random"}
    load = {"seq_len": seq_len, "num_kv_pairs": num_kv_pairs, "num_examples": 1000}
    return task(MQAR, load, **usual | changes)


def gaps_of(positions: Tensor, num_passes: int = 1) -> Tensor:
    return (positions - 2 * positions.shape[1] * num_passes) // 2


def chi2(values: Tensor, weights: list[float] | Tensor) -> float:
    """Return the p-value of integer samples against weights of 0..len(weights)-1."""
    expected = torch.as_tensor(weights, dtype=torch.float64)
    expected = expected / expected.sum() * values.numel()
    assert expected.min() > 5, "too few samples for a chi-square"
    observed = values.flatten().bincount(minlength=len(expected)).double()
    assert len(observed) == len(expected), "a value outside the law"
    return stats.chisquare(observed.numpy(), expected.numpy(), sum_check=False).pvalue


def independent(a: Tensor, b: Tensor) -> float:
    """Return the p-value of two integer samples, side by side, being independent."""
    table = torch.stack([b[a == i].bincount(minlength=int(b.max()) + 1) for i in range(int(a.max()) + 1)])
    return stats.chi2_contingency(table.numpy()).pvalue


def same_law(a: Tensor, b: Tensor) -> float:
    """Return the p-value of two integer samples being of one law; rare values are pooled."""
    size = int(max(a.max(), b.max())) + 1
    counts = torch.stack([x.flatten().bincount(minlength=size) for x in (a, b)])
    counts = counts[:, counts.sum(0).argsort(descending=True)]
    ends = [0, *((counts.sum(0).cumsum(0) // 50).diff().nonzero()[:, 0] + 1).tolist(), size]
    pooled = torch.stack([counts[:, lo:hi].sum(1) for lo, hi in pairwise(ends) if hi > lo], 1)
    pooled = pooled[:, pooled.sum(0) > 0]
    return stats.chi2_contingency(pooled.numpy()).pvalue
