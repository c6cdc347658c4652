"""Draw MQAR rows as the reference does, number for number: numpy's legacy generator, one call a row.

The reference is HazyResearch/zoology, zoology/data/multiquery_ar.py and utils.py (January 2026): per segment
all keys, then all values, then all gaps.  With random_non_queries=True, torch's global generator then fills
the zeros, in one draw for each whole segment, training segments first.  Until January 2026 the program
made its data before its model, so the filler follows from the seed; since then the model's initial weights
are drawn in between, and the filler depends on them.  The figures are of 2024: this file follows the former.
Slow (about 0.2 s per 1000 rows); it serves to check our rows and to rebuild a published set.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from zoo.tasks.base import Batch

HALF = 2**31


def segment_seeds(train_segments: int, test_segments: int, seed: int = 123) -> tuple[list[int], list[int]]:
    """Return the seeds of the training segments, below 2**31, and of the test segments, 2**31 to 2**32."""
    rng = np.random.RandomState(seed)
    train = rng.randint(0, HALF, size=train_segments, dtype=np.int64)
    test = rng.randint(HALF, 2 * HALF, size=test_segments, dtype=np.int64)
    return train.tolist(), test.tolist()


def reference_filler(
    shapes: Sequence[tuple[int, int]], vocab_size: int, seed: int = 123
) -> Int[Tensor, "B T"]:
    """Return the filler of the last of these segments (rows, tokens), which are in order, training first."""
    generator = torch.Generator().manual_seed(seed)
    for shape in shapes[:-1]:
        torch.randint(vocab_size, shape, generator=generator)
    return torch.randint(vocab_size, shapes[-1], generator=generator)


def reference_rows(
    *,
    seed: int,
    vocab_size: int,
    seq_len: int,
    num_kv_pairs: int,
    num_examples: int,
    power_a: float = 0.01,
    num_passes: int = 1,
) -> Batch:
    """Return a segment of the reference with blank filler.

    Rows depend on `num_examples`, since all keys are drawn before any value.  num_passes > 1 repeats the
    pairs as documented there (the code there stops with a shape error).
    """
    n, half = num_kv_pairs, vocab_size // 2
    context = 2 * n * num_passes
    places = (seq_len - context) // 2
    weights = power_a * np.arange(1, places + 1) ** (power_a - 1)
    weights = weights / weights.sum()

    rng = np.random.RandomState(seed)
    keys = _per_row(num_examples, lambda: rng.choice(np.arange(1, half), size=n, replace=False))
    values = _per_row(num_examples, lambda: rng.choice(np.arange(half, vocab_size), size=n, replace=False))
    gaps = _per_row(num_examples, lambda: rng.choice(np.arange(places), size=n, replace=False, p=weights))

    inputs = torch.zeros(num_examples, seq_len, dtype=torch.int64)
    inputs[:, :context] = torch.stack([keys, values], -1).flatten(1).repeat(1, num_passes)
    positions = context + 2 * gaps
    inputs.scatter_(1, positions, keys)
    sources = torch.arange(context - 2 * n, context, 2).expand_as(positions)
    return Batch(inputs, positions, values, {"distance": positions - sources})


def _per_row(rows: int, draw: Callable[[], np.ndarray]) -> Int[Tensor, "B n"]:
    return torch.from_numpy(np.stack([draw() for _ in range(rows)])).long()
