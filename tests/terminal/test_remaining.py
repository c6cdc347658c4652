"""The time left: the work that is left, at the pace of the work that was done."""

import pytest

from zoo.launch.remaining import Remaining


class Clocked(Remaining):
    """On a clock that the test sets."""

    def __init__(self, cells: int) -> None:
        self.time = 1.0
        super().__init__(cells, now=lambda: self.time)

    def train(self, seconds: float, **shares: tuple[float, float]) -> None:
        """Cells that train at once, each from one share of its steps to another."""
        for share in (0, 1):
            for run_id, reported in shares.items():
                self.progress(run_id, reported[share])
            self.time += seconds * (share == 0)


def test_nothing_is_known_before_a_pace_is():
    left = Clocked(8)
    assert left.seconds() is None
    left.train(1, a=(0.0, 0.01))
    assert left.seconds() is None


def test_cells_at_work_speak_for_those_that_wait():
    """Two workers, or one process of two members: half of each in 10 s, six more to come."""
    left = Clocked(8)
    left.train(10, a=(0.0, 0.5), b=(0.0, 0.5))
    assert left.seconds() == pytest.approx(7 * 10)


def test_steps_of_an_earlier_attempt_are_no_speed_of_this_one():
    left = Clocked(3)
    left.train(10, a=(0.9, 1.0))
    left.ended("a", whole=True)
    assert left.seconds() == pytest.approx(200)


def test_a_failure_says_nothing_of_how_long_a_cell_takes():
    left = Clocked(3)
    left.train(10, a=(0.0, 1.0), b=(0.0, 0.5))
    left.ended("a", whole=True)
    left.ended("b", whole=False)
    assert left.seconds() == pytest.approx(10)
    left.ended("c", whole=True)
    assert left.seconds() == 0
