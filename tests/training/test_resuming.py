"""A cell that is stopped anywhere and started again ends with the same bytes as one left alone."""

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.population.together import fresh, told
from tests.registry import cases
from tests.training.tiny import STEPS, assert_same, checkpoint, scores, tiny
from zoo.common import interrupts
from zoo.common.interrupts import Terminated
from zoo.config.cell import Cell
from zoo.mixers.cases import Case
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.training import runs, train_state
from zoo.training.train import train

SETTINGS = {
    "stream": {"block__embed_dropout": 0.2},
    "fixed": {"task__data": "fixed", "task__order": "shuffled", "optim__warmup": 0.3},
    "rmsprop": {"optim___target_": "torch.optim.RMSprop"},
    "zoology": {"block": "zoology", "optim__schedule_every": "epoch", "task__data": "fixed"},
}


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def _every_step_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "REPORT_EVERY", 0.0)


def stop_at(step: int, message: str, how: Callable[[], None]) -> Callable[[Progress], None]:
    def report(progress: Progress) -> None:
        if progress.step == step and progress.message == message:
            how()

    return report


def raise_stop() -> None:
    raise Stop


def cut_off(cell: Cell, folder: Path, step: int = 5, message: str = "training") -> None:
    """Train until there, and end as a kill would."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(runs, "REPORT_EVERY", 0.0)
        train(cell, folder, stop_at(step, message, raise_stop))


def left_alone(tmp_path: Path, **changes: Any) -> tuple[Cell, Outcome, Path, Path]:
    """Train a cell undisturbed; return it, its outcome, its folder and an empty one for a second training."""
    cell, undisturbed = tiny(**changes), fresh(tmp_path / "undisturbed")
    return cell, train(cell, undisturbed), undisturbed, fresh(tmp_path / "twin")


def kill(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_cell_ends_as_if_left_alone(tmp_path: Path, name: str):
    cell, _, undisturbed, _ = left_alone(tmp_path, **SETTINGS[name])
    places = [(1, "training"), (5, "training"), (7, "validating"), (11, "training")]
    for step, message in [*places, (14, "testing")]:
        folder = fresh(tmp_path / f"{step}-{message}")
        cut_off(cell, folder, step, message)
        outcome = train(cell, folder)
        assert outcome["status"] == "ok" and outcome["steps"] == STEPS
        assert_same(undisturbed, folder)


DRAWING = [case for case in cases() if any(isinstance(v, list) for v in case.changes.values())]


@pytest.mark.parametrize("case", DRAWING, ids=str)
def test_random_choices_of_a_mixer_continue_after_a_resume(tmp_path: Path, case: Case):
    """A list among a mixer's settings is a set of values to draw from."""
    changes = {f"mixer__{key}": str(value).replace("'", "") for key, value in case.changes.items()}
    cell, _, undisturbed, folder = left_alone(tmp_path, mixer=case.name, **changes)
    cut_off(cell, folder)
    train(cell, folder)
    assert_same(undisturbed, folder)


@pytest.mark.parametrize(
    ("every", "how"), [(1, raise_stop), (100, kill(signal.SIGINT))], ids=["killed", "interrupted"]
)
def test_a_cell_stopped_at_every_step_still_finishes(tmp_path: Path, every: int, how: Callable[[], None]):
    cell, _, undisturbed, folder = left_alone(tmp_path, trainer__checkpoint_every=every)
    for step in range(1, STEPS + 1):
        with pytest.raises((Stop, KeyboardInterrupt)):
            train(cell, folder, stop_at(step, "training", how))
    train(cell, folder)
    assert_same(undisturbed, folder)


def test_a_finished_cell_only_tests_again(tmp_path: Path):
    first = train(tiny(), tmp_path)
    before = (tmp_path / "metrics.csv").read_bytes()
    reports: list[Progress] = []
    again = train(tiny(), tmp_path, reports.append)
    assert told(again) == told(first) and again["step_form"] == "eager" and again["kernels"]
    assert {p.message for p in reports} <= {f"resumed at step {STEPS}", "testing"}
    assert (tmp_path / "metrics.csv").read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_current_step_wherever_it_comes(tmp_path: Path, number: int):
    handlers = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    cell, expected, undisturbed, _ = left_alone(tmp_path, trainer__checkpoint_every=100)
    places = [(1, "training"), (4, "training"), (7, "training"), (7, "validating"), (9, "training")]
    for step, message in [*places, (14, "training"), (14, "validating"), (14, "testing")]:
        folder = fresh(tmp_path / f"{step}-{message}")
        with pytest.raises(KeyboardInterrupt) as stopped:
            train(cell, folder, stop_at(step, message, kill(number)))
        assert isinstance(stopped.value, Terminated) == (number == signal.SIGTERM)
        assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert checkpoint(folder)["position"]["step"] == step
        assert checkpoint(folder)["position"]["to_validate"] == (step % 7 == 0 and message != "testing")
        assert told(train(cell, folder)) == told(expected)
        assert_same(undisturbed, folder)


def test_a_second_interrupt_during_the_save_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save, saves = torch.save, count(1)

    def interrupted(contents: Any, file: Any) -> None:
        save(contents, file)
        next(saves)
        kill(signal.SIGINT)()

    cell, _, undisturbed, folder = left_alone(tmp_path, trainer__checkpoint_every=100)
    monkeypatch.setattr(interrupts, "HURRY_S", 0.0)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch, "save", interrupted)
        train(cell, folder, stop_at(4, "training", kill(signal.SIGINT)))
    assert next(saves) == 2 and checkpoint(folder)["position"]["step"] == 4
    assert {path.name for path in folder.iterdir()} == {"last.ckpt", "metrics.csv"}
    train(cell, folder)
    assert_same(undisturbed, folder)


def test_a_second_interrupt_before_the_save_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A step may take minutes."""
    monkeypatch.setattr(interrupts, "HURRY_S", 0.0)

    def twice() -> None:
        kill(signal.SIGINT)()
        kill(signal.SIGINT)()
        raise AssertionError("it went on")

    with pytest.raises(KeyboardInterrupt):
        train(tiny(trainer__checkpoint_every=3), tmp_path, stop_at(5, "training", twice))
    assert checkpoint(tmp_path)["position"]["step"] == 3


@pytest.mark.parametrize(("seconds", "step"), [(1e-9, 4), (1e9, 0)])
def test_a_checkpoint_is_due_by_time_too(tmp_path: Path, seconds: float, step: int):
    cell = tiny(trainer__checkpoint_every=100, trainer__checkpoint_seconds=seconds)
    cut_off(cell, tmp_path)
    assert (tmp_path / "last.ckpt").exists() == (step > 0)
    assert not step or checkpoint(tmp_path)["position"]["step"] == step


def test_a_cell_killed_as_it_validates_need_not_train_that_epoch_again(tmp_path: Path):
    cell, expected, undisturbed, folder = left_alone(tmp_path, trainer__checkpoint_seconds=1e-9)
    cut_off(cell, folder, 7, "validating")
    reports: list[Progress] = []
    assert told(train(cell, folder, reports.append)) == told(expected)
    assert [at.message for at in reports[:2]] == ["resumed at step 7", "validating"]
    assert_same(undisturbed, folder)


def test_early_stop_ends_the_cell_and_stays_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(train_state, "pooled_row_accuracy", lambda scores: 0.995)
    cell = tiny(optim__early_stop=0.99)
    cut_off(cell, tmp_path, 7, "testing")
    reports: list[Progress] = []
    outcome = train(cell, tmp_path, reports.append)
    assert outcome["early_stopped"] and outcome["steps"] == 7 and outcome["epochs"] == 1
    assert outcome["total_steps"] == STEPS and scores(outcome, "test")
    assert "training" not in {p.message for p in reports}
    higher = train(tiny(optim__early_stop=0.999), fresh(tmp_path / "higher"))
    assert not higher["early_stopped"] and higher["steps"] == STEPS


def validated(folder: Path) -> list[int]:
    rows = (line.split(",") for line in (folder / "metrics.csv").read_text().splitlines())
    return list(dict.fromkeys(int(row[0]) for row in rows if row[1] == "valid"))


@pytest.mark.parametrize("step", [9, 14, 21])  # within an epoch, after one without a validation, with one
def test_validations_may_skip_epochs_but_not_the_last(tmp_path: Path, step: int):
    words = {"optim__max_epochs": 5, "optim__early_stop": None}
    usual, cell = tiny(**words), tiny(**words, optim__check_val_every_n_epoch=3)
    plain = train(usual, fresh(tmp_path / "usual"))
    assert validated(tmp_path / "usual") == [7, 14, 21, 28, 35]
    cut_off(cell, fresh(tmp_path / "cell"), step)
    outcome = train(cell, tmp_path / "cell")
    assert validated(tmp_path / "cell") == [21, 35]  # of the cell's epochs, wherever it was cut off
    for split in ("valid", "test"):
        assert scores(outcome, split) == scores(plain, split)


@pytest.mark.parametrize("damage", ["empty", "half", "short", "text", "flipped"])
def test_a_damaged_checkpoint_is_refused_before_training(tmp_path: Path, damage: str):
    cut_off(tiny(), tmp_path)
    path = tmp_path / "last.ckpt"
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "empty": b"",
            "half": whole[:middle],
            "short": whole[:-7],
            "text": b"not a checkpoint\n" * 9,
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],  # inside a tensor
        }[damage]
    )
    with pytest.raises(ValueError, match=r"last\.ckpt is not .* delete it to start the cell anew") as error:
        train(tiny(), tmp_path)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_cell_is_refused(tmp_path: Path):
    cut_off(tiny(), tmp_path)
    with pytest.raises(ValueError, match="belongs to the cell"):
        train(tiny(seed=3), tmp_path)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (None, "it has no position"),
        ({}, "position has no early_stopped"),
        ({"steps": 3}, "position has steps, which nobody knows"),
        ({"step": "3"}, "step"),
    ],
)
def test_a_checkpoint_without_a_valid_position_is_refused(tmp_path: Path, position: Any, message: str):
    train(tiny(), tmp_path)
    contents = torch.load(tmp_path / "last.ckpt", weights_only=True)
    changed = contents["position"] | position if position else position
    torch.save(contents | {"position": changed}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match=f"does not say where its cell stands .*{message}"):
        train(tiny(), tmp_path)


def test_weights_that_are_not_finite_after_the_last_step_have_diverged(tmp_path: Path):
    train(tiny(), tmp_path)
    contents = torch.load(tmp_path / "last.ckpt", weights_only=True)
    for weight in contents["model"].values():
        if weight.is_floating_point():
            weight.fill_(float("nan"))
    torch.save(contents, tmp_path / "last.ckpt")
    outcome = train(tiny(), tmp_path)
    assert (outcome["status"], outcome["diverged_step"]) == ("diverged", STEPS)


def test_a_checkpoint_that_is_a_pipe_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match="is no file: delete it"):
        train(tiny(), tmp_path)
