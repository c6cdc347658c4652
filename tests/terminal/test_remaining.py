"""The time left, against cells whose end is known: a simulated clock, no training."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from zoo.config.cell import Cell
from zoo.launch.remaining import Forecast, Remaining

START, EVERY = 4.0, 0.5  # seconds until a cell is first heard of, and between two words from it


def cells(*points: str, seeds: int = 2) -> list[Cell]:
    """points: "mixer/knob"."""
    return [
        Cell({"seed": seed}, {"mixer": point.split("/")[0]}, (point, f"seed={seed}"), point)
        for point in points
        for seed in range(seeds)
    ]


@pytest.fixture(autouse=True)
def _named_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cell, "run_id", property(lambda self: " ".join(self.overrides)))


@dataclass
class Simulation:
    """Workers over cells: `seconds` of training by point, then a tail; what is true and what is said."""

    todo: Sequence[Cell]
    workers: int
    seconds: dict[str, float]
    steps: int = 1000
    tail: float = 1.0
    resumed: dict[str, int] = field(default_factory=dict)
    time: float = 0.0

    def said(self, remaining: Remaining) -> Iterator[tuple[float, float | None]]:
        """(true seconds left, those said), twice a second."""
        remaining.now = lambda: self.time
        begins = self._begins()
        end = max(begins[c.run_id] + self._lasts(c) for c in self.todo)
        running: dict[str, Cell] = {}
        while self.time < end:
            for cell in self.todo:
                age = self.time - begins[cell.run_id]
                if age >= self._lasts(cell) and running.pop(cell.run_id, None):
                    remaining.ended(cell.run_id, whole=True)
            for cell in self.todo:
                age = self.time - begins[cell.run_id]
                if 0 <= age < self._lasts(cell):
                    if cell.run_id not in running:
                        running[cell.run_id] = cell
                        remaining.started([cell])
                    if age >= START:
                        remaining.progress(cell.run_id, self._step(cell, age - START), self.steps)
            yield end - self.time, remaining.all()
            self.time += EVERY

    def _begins(self) -> dict[str, float]:
        free, begins = [0.0] * self.workers, {}
        for cell in self.todo:
            begins[cell.run_id] = free[0]
            heapq.heapreplace(free, free[0] + self._lasts(cell))
        return begins

    def _lasts(self, cell: Cell) -> float:
        to_do = 1 - self.resumed.get(cell.run_id, 0) / self.steps
        return START + self.seconds[cell.point] * to_do + self.tail

    def _step(self, cell: Cell, trained: float) -> int:
        done = self.resumed.get(cell.run_id, 0) + int(self.steps * trained / self.seconds[cell.point])
        return min(self.steps, done)


def off(pairs: Iterator[tuple[float, float | None]], room: float) -> tuple[float, float]:
    """The largest factor between said and true (but for `room` seconds); the true at the first word."""
    worst, first = 1.0, 0.0
    for true, said in pairs:
        if said is not None:
            first = max(first, true)
            high, low = max(true, said), min(true, said)
            worst = max(worst, high / (low + room))
    return worst, first


POINTS = {"a/1": 60.0, "a/2": 90.0, "b/1": 20.0}


@pytest.mark.parametrize("wrong", [0.2, 1.0, 5.0], ids="forecasts x{}".format)
def test_cells_that_end_in_pairs(wrong: float):
    """Two workers, seeds in pairs: between two pairs nothing has ended, and four minutes are four minutes."""
    todo = cells(*POINTS)
    truth = Simulation(todo, 2, POINTS)
    remaining = Remaining(todo, 2)
    remaining.forecasts = {p: Forecast(wrong * s, sure=False) for p, s in POINTS.items()}
    worst, first = off(truth.said(remaining), room=6.0)
    assert worst < 1.3
    assert first > 170  # of 185 s: once the first two have trained for two seconds


def test_sure_forecasts_speak_from_the_start():
    todo = cells(*POINTS)
    remaining = Remaining(todo, 2)
    remaining.forecasts = {p: Forecast(s + START + 1, sure=True) for p, s in POINTS.items()}
    worst, first = off(Simulation(todo, 2, POINTS).said(remaining), room=6.0)
    assert worst < 1.2 and first == pytest.approx(185)


def test_without_a_forecast_the_cells_seen_are_what_is_known():
    todo = cells("a/1", seeds=8)
    assert Remaining(todo, 2).all() is None
    worst, _ = off(Simulation(todo, 2, {"a/1": 40.0}).said(Remaining(todo, 2)), room=6.0)
    assert worst < 1.3


def test_steps_of_an_earlier_attempt_are_no_speed_of_this_one():
    todo = cells("a/1", seeds=4)
    resumed = {cell.run_id: 900 for cell in todo[:2]}
    truth = Simulation(todo, 2, {"a/1": 100.0}, resumed=resumed)
    worst, _ = off(truth.said(Remaining(todo, 2)), room=6.0)
    assert worst < 1.3


def test_a_long_test_is_expected_of_the_later_cells():
    todo = cells("a/1", seeds=6)
    truth = Simulation(todo, 2, {"a/1": 20.0}, tail=20.0)
    late = [(true, said) for true, said in truth.said(Remaining(todo, 2)) if true < 85]  # two have ended
    assert off(iter(late), room=6.0)[0] < 1.3


def test_one_left_over_waits_for_a_worker():
    """Three cells of 30 s on two workers are a minute, not 45 s."""
    todo = cells("a/1", seeds=3)
    remaining = Remaining(todo, 2)
    remaining.forecasts = {"a/1": Forecast(30, sure=True)}
    assert remaining.all() == 60


def test_a_population_counts_once():
    """Four cells in one process of 80 s, four that wait for it: 160 s."""
    todo = cells("a/1", seeds=8)
    remaining = Remaining(todo, 1, now=lambda: 0.0)
    remaining.forecasts = {"a/1": Forecast(20, sure=True)}
    remaining.started(todo[:4])
    assert remaining.all() == 160
    assert remaining.of(todo[0].run_id) == 80


def test_a_cell_of_another_process_takes_no_worker():
    todo = cells("a/1", seeds=2)
    remaining = Remaining(todo, 1, now=lambda: 0.0)
    remaining.forecasts = {"a/1": Forecast(20, sure=True)}
    remaining.started(todo[:1], elsewhere=True)
    remaining.progress(todo[0].run_id, 0, 1)
    assert remaining.all() == 20
    remaining.ended(todo[0].run_id, whole=True)
    remaining.started(todo[1:])
    remaining.stopped(todo[1].run_id)
    assert remaining.all() == 20
