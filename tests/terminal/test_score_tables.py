"""The tables at the end of a sweep, and the estimate of the time left."""

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from zoo.common import terminal
from zoo.common.terminal import print_whole
from zoo.launch.remaining import Remaining
from zoo.launch.score_tables import print_results, result_table, slice_table, summary

Shown = Callable[..., list[str]]


def record(seed: int, accuracy: float | None, status: str = "ok", lr: float = 0.01) -> dict[str, Any]:
    entry = {"split": "test", "accuracy": accuracy, "loss": 1.0, "answers": 8, "rows": 2, "coverage": 1.0}
    return {
        "point": "p", "mixer": "sliding_window", "knob": {"window": [8]}, "mixer_settings": {"window": 8},
        "d_model": 64, "state_resident": 10_073, "lr": lr, "seed": seed, "status": status,
        "slices": [
            entry | {"slice": {"seq_len": 32, "num_kv_pairs": 4}, "coverage": 0.5},
            entry | {"slice": {"seq_len": 128, "num_kv_pairs": 32}},
        ],
    }  # fmt: skip


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Return lines(width, *tables), the printed lines on a screen of so many columns."""

    def lines(width: int, *layouts: Any) -> list[str]:
        print_whole(Console(width=width), *layouts)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


def in_words(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def test_seeds_of_a_point_are_one_row_with_mean_and_spread(shown: Shown):
    records = [record(0, 0.5), record(1, 0.7), record(2, None, "diverged"), record(0, 0.25, lr=0.1)]
    lines = shown(160, result_table(records))
    assert "mean over seeds ± standard deviation (range if > 30% apart) all with: d_model=64" in " ".join(
        lines
    )
    assert [line for line in in_words(lines) if "window=8" in line] == [
        "sliding_window window=8 10073 0.01 3, 1 diverged 60.0% ±14.1 60.0% ±14.1",
        "sliding_window window=8 10073 0.1 1 25.0% 25.0%",
    ]


def test_words_that_set_points_apart_stand_in_their_rows(shown: Shown):
    words = (["seed=0", "optim.warmup=0"], ["seed=0", "optim.warmup=0.1"])
    rows = [record(0, 0.5) | {"point": f"{i}", "overrides": each} for i, each in enumerate(words)]
    rows[0]["slices"][0]["chance"], rows[1]["slices"][0]["chance"] = 0.11, 0.3
    lines = in_words(shown(160, result_table(rows)))
    assert [line for line in lines if "window=8" in line] == [
        "sliding_window window=8 optim.warmup=0 10073 0 50.0% 50.0%",
        "sliding_window window=8 optim.warmup=0.1 10073 0 50.0% 50.0%",
    ]
    assert "chance 11.0% to 30.0%" in lines


def test_seeds_far_apart_have_a_range_and_no_mean(shown: Shown):
    lines = in_words(shown(160, result_table([record(0, 0.1), record(1, 0.9), record(2, 0.8)])))
    assert "sliding_window window=8 10073 3 10.0% to 90.0% 10.0% to 90.0%" in lines


def test_one_seed_is_named_and_has_no_spread(shown: Shown):
    lines = shown(160, result_table([record(7, 0.5)]))
    assert "spread" not in lines[0] and "±" not in "".join(lines)
    assert any(line.split()[-4:] == ["10073", "7", "50.0%", "50.0%"] for line in lines)
    assert "diverged" in "".join(shown(160, result_table([record(0, None, "diverged")])))


def test_chance_is_shown_where_records_have_it(shown: Shown):
    one = record(0, 0.5)
    assert "chance" not in " ".join(shown(160, result_table([one]), slice_table(one)))
    for entry, chance in zip(one["slices"], (0.25, 0.03125), strict=True):
        entry["chance"] = chance
    assert "chance 25.0% 3.1%" in in_words(shown(160, result_table([one])))
    assert "test 32 4 50.0% 25.0% 1.000 8 2 50.0%" in in_words(shown(160, slice_table(one)))


@pytest.mark.parametrize("width", [20, 60, 80])
def test_no_text_is_cut(shown: Shown, width: int):
    records = [record(0, 0.5), record(1, 0.7), record(0, 0.25, lr=0.1)]
    lines = shown(width, result_table(records), result_table(records, narrow=True))
    text = " ".join(lines)
    assert "…" not in text
    assert all(word in text for word in ("sliding_window", "window=8", "10073", "60.0%", "±14.1", "128/32"))
    assert max(map(len, lines)) <= max(width, 60)
    assert "…" not in " ".join(shown(width, slice_table(records[0])))


def test_a_summary_names_each_percentage():
    assert summary(record(0, 0.5)) == "test seq_len/num_kv_pairs 32/4: 50.0% (coverage 50.0%), 128/32: 50.0%"


def test_each_task_has_a_table_and_many_slices_have_several(capsys: pytest.CaptureFixture[str]):
    """80 columns hold neither 24 slices side by side nor those of two tasks."""
    entry = record(0, 0.5)["slices"][1]
    many = [entry | {"slice": {"seq_len": 64 * i, "subtask": f"multikey_{i}"}} for i in range(1, 25)]
    records = [record(0, 0.7) | {"task": "mqar"}, record(0, 0.5) | {"task": "ruler", "slices": many}]
    print_results(Console(width=80), records)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    titles = [line for line in lines if line.startswith("all with: task=")]
    assert titles[0].startswith("all with: task=mqar") and len(titles) > 2
    words = " ".join(lines).split()
    assert all(words.count(f"multikey_{i}") == 1 for i in range(1, 25)) and words.count("50.0%") == 24
    print_results(Console(width=600), records[1:])
    assert sum("sliding_window" in line for line in capsys.readouterr().out.splitlines()) == 1


def test_rows_are_named_by_their_unusual_settings(shown: Shown):
    """The block of two that most rows have is not named, nor is a seed among the mixer's settings."""
    records = []
    for i, block in enumerate((2, 2, 4)):
        for seed in (0, 1):
            settings = {"window": 8, "block": block, "draw": seed, "d_model": 64, "_target_": "x"}
            records.append(record(seed, 0.5) | {"point": f"p{i}", "mixer_settings": settings})
    records[-1]["adaptation"] = records[-2]["adaptation"] = {"recipe": "lora", "rank": 4, "alpha": 8}
    lines = shown(200, result_table(records))
    named = [line.split("  ")[0].strip() for line in lines if "window=8" in line]
    usual = "sliding_window window=8"
    assert named == [usual, usual, f"{usual} block=4"]
    assert any("adaptation=lora rank=4" in line for line in lines)


def test_cells_with_a_start_have_a_separate_table(capsys: pytest.CaptureFixture[str]):
    print_results(Console(width=120), [record(0, 0.5), record(0, 0.7) | {"point": "q", "start": "p-1"}])
    assert capsys.readouterr().out.count("accuracy on the test split") == 2


@pytest.mark.parametrize(("width", "left"), [(40, ["mixer", "paper", "size"]), (39, ["mixer", "size"])])
def test_a_narrow_terminal_loses_a_column(monkeypatch: pytest.MonkeyPatch, width: int, left: list[str]):
    monkeypatch.setattr(terminal, "console", lambda: Console(width=width))
    table = terminal.slim("")
    for name in ("mixer", "paper", "size"):
        table.add_column(name, overflow="fold", no_wrap=name == "size")
    table.add_row("sliding_window", "arXiv 2004.05150", "1,024 or 4", style="dim")
    table.caption = "all with: seed=0"
    made = terminal.fitting(table, ["paper", "knob"])
    assert [column.header for column in made.columns] == left
    missing = "\nno room here for: paper" * (len(left) == 2)
    assert made.caption == f"all with: seed=0{missing}" and made.rows[0].style == "dim"


class Clocked(Remaining):
    """A Remaining whose clock the test sets."""

    def __init__(self, cells: int) -> None:
        self.time = 1.0
        super().__init__(cells, now=lambda: self.time)

    def train(self, seconds: float, **shares: tuple[float, float]) -> None:
        """Train several cells at once, each from one share of its steps to another."""
        for share in (0, 1):
            for run_id, reported in shares.items():
                self.progress(run_id, reported[share])
            self.time += seconds * (share == 0)


def test_there_is_no_estimate_before_some_progress():
    left = Clocked(8)
    assert left.seconds() is None
    left.train(1, a=(0.0, 0.01))
    assert left.seconds() is None


FAILED = {"a": (0.0, 1.0), "b": (0.0, 0.5)}, {"a": True, "b": False}
SLOWER = [{name: (0.0, 1.0)} for name in "abc"] + [{"d": (0.0, 0.1)}]
# cells, what trained for 10 s each, which ended, and whether whole -> seconds left
PACES = {
    "waiting cells take as long as running ones": (8, [{"a": (0.0, 0.5), "b": (0.0, 0.5)}], {}, 7 * 10),
    "steps of an earlier attempt do not count": (3, [{"a": (0.9, 1.0)}], {"a": True}, 200),
    "a failed cell does not count": (3, [FAILED[0]], FAILED[1], 10),
    "a failed cell is not waited for": (3, [FAILED[0]], FAILED[1] | {"c": True}, 0),
    "the slowest running cell sets the least": (4, SLOWER, dict.fromkeys("abc", True), 90),
}


@pytest.mark.parametrize(("cells", "trained", "ended", "seconds"), PACES.values(), ids=PACES)
def test_the_time_left_is_at_the_pace_of_the_work_done(
    cells: int, trained: list[dict[str, tuple[float, float]]], ended: dict[str, bool], seconds: float
):
    left = Clocked(cells)
    for shares in trained:
        left.train(10, **shares)
    for run_id, whole in ended.items():
        left.ended(run_id, whole)
    assert left.seconds() == pytest.approx(seconds, rel=1e-6, abs=0)
