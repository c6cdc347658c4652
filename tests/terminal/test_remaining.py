"""The time left: what cells took, or take by their pace, times those that are left, over the workers."""

import pytest

from zoo.config.cell import Cell
from zoo.launch.remaining import Remaining


@pytest.fixture(autouse=True)
def _named_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cell, "run_id", property(lambda self: " ".join(self.overrides)))


class Clocked(Remaining):
    """Cells 0, 1, ... on a clock that the test sets."""

    def __init__(self, cells: int, workers: int | None) -> None:
        self.time = 0.0
        self.cells = [Cell({"seed": i}, {"mixer": "a"}, (str(i),)) for i in range(cells)]
        super().__init__(self.cells, workers, now=lambda: self.time)

    def train(self, cell: int, seconds: float, first: int = 0, until: int = 100) -> None:
        """One cell alone from its start on; 100 steps in all."""
        self.started([self.cells[cell]])
        self.progress(str(cell), first, 100)
        self.time += seconds
        self.progress(str(cell), until, 100)


def test_nothing_is_said_before_anything_is_known():
    left = Clocked(8, 2)
    left.started(left.cells[:1])
    assert left.all() is left.of("0") is left.of("7") is None


def test_the_pace_of_a_running_cell_speaks_for_those_that_wait():
    left = Clocked(8, 2)
    left.train(0, seconds=10, until=25)
    assert left.of("0") == pytest.approx(30)
    left.time += 3
    assert left.of("0") == pytest.approx(27)
    assert left.all() == pytest.approx(40 * 7.75 / 2)


def test_cells_that_have_ended_speak_by_their_median():
    left = Clocked(6, 2)
    for cell, seconds in enumerate((10, 20, 90)):
        left.train(cell, seconds)
        left.time += 1  # the test
        left.ended(str(cell), whole=True)
    left.started([left.cells[3]])
    left.ended("3", whole=False)  # a failure says nothing of how long a cell takes
    assert left.all() == pytest.approx(21 * 2 / 2)
    left.train(4, seconds=0, until=0)
    left.train(5, seconds=0, until=0)
    for cell in "45":
        left.ended(cell, whole=True)
    assert left.all() == 0


def test_the_last_cell_has_no_use_for_a_second_worker():
    left = Clocked(2, 4)
    left.train(0, seconds=30)
    left.ended("0", whole=True)
    assert left.all() == pytest.approx(30)
    left.train(1, seconds=50, until=50)  # and may take longer than the others did
    assert left.all() == left.of("1") == pytest.approx(50)


def test_steps_of_an_earlier_attempt_are_no_speed_of_this_one():
    left = Clocked(3, 1)
    left.train(0, seconds=10, first=90)
    assert left.all() == pytest.approx(200)
    left.ended("0", whole=True)
    assert left.all() == pytest.approx(200)


@pytest.mark.parametrize("workers", [1, None])
def test_a_population_counts_once(workers: int | None):
    """Four cells in one process of 80 s, four that wait for it."""
    left = Clocked(8, workers)
    left.started(left.cells[:4])
    for step in (0, 50):
        for member in range(4):
            left.progress(str(member), step, 100)
        left.time += 40 * (step == 0)
    assert left.of("0") == pytest.approx(40)
    assert left.all() == pytest.approx(120)


def test_a_cell_of_another_process_takes_no_worker():
    left = Clocked(2, 1)
    left.started(left.cells[:1], elsewhere=True)
    left.progress("0", 50, 100)
    assert left.of("0") is None
    left.train(1, seconds=10, until=50)
    assert left.all() == pytest.approx(10)
    left.stopped("1")
    assert left.waiting == {"1"}
    left.ended("0", whole=True)
    assert left.all() is None
