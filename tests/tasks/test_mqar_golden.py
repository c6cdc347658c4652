"""Published numbers: the reference's rows through the compatibility path, and the sliding-window curve."""

import hashlib
from functools import cache

import pytest
import torch

from tests.registry import composer
from tests.tasks.test_task_laws import task_of
from zoo.config.targets import make
from zoo.mixers import SlidingWindow
from zoo.tasks.base import Split, Task
from zoo.tasks.coverage import coverage
from zoo.tasks.mqar_numpy_compat import segment_seeds
from zoo.tasks.mqar_reference import ReferenceMQAR

TRAIN_SEEDS = [843828734, 914636141, 1228959102, 1840268610, 974319580]
TEST_SEEDS = [2967327842, 2367878886, 3088727057, 3090095699, 4256823402, 3964712059, 3350193721]


def test_segment_seeds_are_the_references():
    assert segment_seeds(5, 7) == (TRAIN_SEEDS, TEST_SEEDS)


# sha256 of inputs, and of labels with -100 where none is, as its own code makes them with its seed
FEW = {
    ("train", 0): ("81166bb983b94296", "3d444702249422a7"),
    ("train", 1): ("78f05df089bfa6bb", "00846959d2ba0534"),
    ("test", 0): ("96952686c9de825e", "914bb82fc07f63f6"),
    ("test", 1): ("c227a9d569fff32d", "c1afdcd03a3cd0ed"),
}
OF_FEW = {"train": [(64, 4, 30), (128, 8, 20)], "test": [(64, 4, 10), (256, 16, 10)]}
PUBLISHED_ROWS = {  # of mqar_based_exact; checked once for all twelve segments
    ("test", 0): ("d37555d8a3e49419", "36e8ea5776aeebcc"),
    ("test", 3): ("207118b51ce2e54c", "9bb637f63582acd2"),
}


@pytest.mark.parametrize(("split", "segment"), FEW)
def test_whole_segments_are_the_references_filler_included(split: Split, segment: int):
    loads = {
        name: [{"seq_len": t, "num_kv_pairs": n, "num_examples": rows} for t, n, rows in shapes]
        for name, shapes in OF_FEW.items()
    }
    given = {"vocab_size": 8192, "power_a": 0.01, "data": "fixed", "order": "sequential"}
    task = ReferenceMQAR(seed=123, filler="random", valid=loads["test"], **given, **loads)
    assert hashes(task, split, segment) == FEW[split, segment]


@pytest.mark.parametrize(("split", "segment"), PUBLISHED_ROWS)
def test_the_published_rows_can_be_chosen(split: Split, segment: int):
    task = task_of("mqar_based_exact", seed=123, most=100_000)
    assert hashes(task, split, segment) == PUBLISHED_ROWS[split, segment]


def hashes(task: Task, split: Split, segment: int) -> tuple[str, str]:
    batch = task.sample(split, segment, range(task.segments(split)[segment].num_examples))
    labels = torch.full_like(batch.inputs, -100).scatter_(1, batch.positions, batch.answers)
    digests = [hashlib.sha256(x.numpy().astype("<i8").tobytes()).hexdigest() for x in (batch.inputs, labels)]
    return digests[0][:16], digests[1][:16]


@pytest.mark.parametrize(("key", "value"), [("filler", "safe"), ("seed", -1)])
def test_settings_that_the_reference_lacks_are_refused(key: str, value: object):
    given = composer().cell(["task=mqar_based_exact", "seed=123"]).config["task"]
    make(given, Task)
    with pytest.raises(ValueError, match=f"task.{key}"):
        make(given | {key: value}, Task)


WINDOWS = [8, 16, 32, 64, 128, 256, 512, 1024]
REACH_B = [0.059, 0.145, 0.313, 0.513, 0.655, 0.797, 0.936, 1.0]  # distance at most b
REACH_B_PLUS_2 = [0.080, 0.165, 0.333, 0.521, 0.659, 0.799, 0.937, 1.0]  # and a convolution of 3 below it
# Based, Figure 2: sliding window of block b
PUBLISHED = [0.081, 0.145, 0.310, 0.515, 0.655, 0.797, 0.936, 1.0]
TOLERANCE = 0.004


def covered(window: int, **given: int) -> dict[str, float]:
    visible = SlidingWindow(d_model=1, num_heads=1, window=window).visible
    shares = coverage(task_of("mqar_based", most=1000), "test", visible, **given)
    assert shares is not None
    return shares


@cache
def slices(reach: int) -> dict[str, float]:
    return covered(reach + 1)


def mean(reach: int) -> float:
    return sum(slices(reach).values()) / 7


@pytest.mark.parametrize(
    ("window", "least", "most", "published"),
    list(zip(WINDOWS, REACH_B, REACH_B_PLUS_2, PUBLISHED, strict=True)),
)
def test_published_sliding_window_points_follow_from_coverage_alone(
    window: int, least: float, most: float, published: float
):
    """No training: a window of b answers what lies within b, and the convolution below lends it up to two."""
    assert mean(window) == pytest.approx(least, abs=TOLERANCE)
    assert mean(window + 2) == pytest.approx(most, abs=TOLERANCE)
    assert mean(window) - TOLERANCE <= published <= mean(window + 2) + TOLERANCE


def test_views_that_are_made_few_at_a_time_cover_the_same(monkeypatch: pytest.MonkeyPatch):
    whole = covered(65, examples=20)
    monkeypatch.setattr("zoo.tasks.coverage.HELD", 7 * 256)
    assert covered(65, examples=20) == whole


def test_coverage_of_the_single_slices_at_64():
    assert list(slices(64).values()) == pytest.approx([1, 1, 1, 0.570, 0.024, 0, 0], abs=TOLERANCE)


def test_distances_of_one_pass_are_even():
    """So a reach of b and of b + 1 see the same answers when b is even."""
    assert slices(65) == slices(64) != slices(66)
