"""The plan before cells run and the tables after them, short for many cells; zoo.plan's numbers by hand."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.analysis import fake
from tests.command import SMALL
from tests.launch import test_state_table
from tests.registry import compose, composer
from tests.results.test_results import outcome
from zoo import plan
from zoo.config.cell import Cell
from zoo.config.yaml_text import as_yaml
from zoo.evaluation import flops
from zoo.launch import display, forecast, score_tables
from zoo.launch.describe import describe
from zoo.launch.remaining import duration
from zoo.launch.run_cell import record
from zoo.launch.sweep import count
from zoo.model import build_model
from zoo.results import store
from zoo.results.outcome import Failure
from zoo.tasks.build import build_task

Planned = Callable[..., tuple[int, str, str]]


@pytest.fixture
def planned(cwd: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """Run `zoo.plan -m` with small cells in an empty folder, and return exit code, output and errors."""

    def run(*words: str) -> tuple[int, str, str]:
        before = sorted(cwd.rglob("*"))
        code = plan.main(["-m", *SMALL, *words])
        assert sorted(cwd.rglob("*")) == before, "a plan writes nothing"
        return code, *capsys.readouterr()

    return run


def rows(out: str) -> dict[str, list[str]]:
    """Map the first column of the table to the others."""
    return {name: fields for name, *fields in test_state_table.rows(out)}


def small(*words: str) -> Cell:
    return compose([*SMALL, *words])


def finished(cell: Cell, steps: int = 200, seconds: float = 400.0) -> None:
    """Write the record of a cell that took so many steps in so many seconds."""
    cell.folder.mkdir(parents=True)
    store.begin(cell.folder, as_yaml(cell.config), {})
    result = record(cell, outcome()) | {"steps": steps, "wall_seconds": seconds, "accelerator": "cpu"}
    store.finish(cell.folder, result)


def test_the_plan_counts_cells_points_sizes_and_finished_cells(planned: Planned, tmp_path: Path):
    finished(small("mixer=attention", "lr=0.01", "seed=1"))
    code, out, _ = planned("mixer=attention,based", "lr=0.01,0.1", "seed=0,1,2")
    assert code == 0
    assert "12 cells: 1 done, 11 to run; 2 points\n" in out
    assert "differ in lr and seed alone: 6 a point\n" in out
    done, state, published, parameters, *_ = rows(out)["attention"]
    cell = small("mixer=attention")
    model = build_model(cell)
    longest = max(segment.seq_len for segment in build_task(cell.config).segments("test"))
    size = model.state_size(longest)
    assert (done, state, published) == ("1/6", f"{size.resident:,}", f"{size.paper:,}")
    assert parameters == f"{sum(p.numel() for p in model.parameters()):,}"
    assert rows(out)["based"][0] == "0/6"


def test_the_plan_shows_the_share_of_weights_that_a_recipe_trains(planned: Planned):
    """A list in the settings is shown, not read as Rich's mark-up."""
    start = "start={experiment: smoke, d_model: 16, task.vocab_size: 128, mixer: attention}"
    words = ("adaptation=full", "adaptation.train=[convolutions],[embedding]")
    code, out, err = planned("mixer=attention", start, *words)
    assert code == 0, err
    assert "[convolutions]" in "".join(out.split()) and "[embedding]" in "".join(out.split())
    whole, few, more = map(float, re.findall(r"([\d.]+)%", out))
    assert whole == 100 and 0 < few < 5 < more < 100
    assert "trained" not in planned("mixer=attention")[1]


def test_all_cells_that_cannot_be_built_are_reported_together(planned: Planned):
    code, out, err = planned("mixer=attention,mamba", "mixer.num_heads=3,5", "lr=0.1,0.2")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 3
    for word in ("num_heads (=3)", "num_heads (=5)", "unknown key mixer.num_heads"):
        assert word in err


def test_columns_without_information_are_left_out(planned: Planned):
    assert "touched" not in planned("mixer=attention,based")[1]
    assert "touched" in planned("mixer=se_attn", "mixer.top_k=1,2")[1]
    words = ("mixer=forgetting_attention", "block=pre_norm", "model.layers=[mixer]")
    assert "published" not in planned(*words)[1]


def test_many_points_are_shown_by_mixer(planned: Planned, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forecast, "MOST_ROWS", 2)
    _, out, _ = planned("mixer=sliding_window", "mixer.window=2,3,5")
    done, state, *_ = rows(out)["sliding_window (3 points)"]
    assert done == "0/3"
    low, high = (
        build_model(small("mixer=sliding_window", f"mixer.window={w}")).state_size(64).resident
        for w in (2, 5)
    )
    assert state == f"{low:,} to {high:,}"


def test_a_time_is_marked_with_its_source(planned: Planned):
    words = ("mixer=attention,based", "mixer.num_heads=1,2")
    assert "? a guess" in planned(*words)[1]
    finished(small("mixer=attention", "mixer.num_heads=1"))
    _, out, _ = planned(*words)
    times = [rows(out)[f"{mixer} num_heads={n}"][-2] for mixer in ("attention", "based") for n in (1, 2)]
    cell = small("mixer=attention")
    assert times[0] == duration(2.0 * flops.cost(cell, build_model(cell)).steps)  # as the record says
    assert [time.split(" ")[-1] for time in times[1:]] == ["~", "~~", "~~"]
    notes = ("unmarked: from earlier cells of the point", "~ from earlier", "~~ from earlier", "? a guess")
    for note in notes:  # the last is the GPU's
        assert f"times: {note}" in out


def test_a_cell_of_few_steps_does_not_count_for_the_speed(planned: Planned):
    finished(small("mixer=attention"), steps=forecast.LEAST_STEPS - 1)
    assert rows(planned("mixer=based")[1])["based"][-2].endswith(" ?")


HOSTILE = """
mixer: {{_target_: pathlib.Path.write_text, self: {{_target_: pathlib.Path, _args_: [{ran}]}}, data: x}}
task: {{_target_: lying_there.Task}}
tag: !!python/object/apply:os.system ["touch {ran}"]
a: &a [x, x, x, x, x, x, x, x, x]
""" + "".join(f"{b}: &{b} [{', '.join(9 * [f'*{a}'])}]\n" for a, b in pairwise("abcdefghij"))


@pytest.mark.parametrize("config", [None, "a: 1", HOSTILE])
def test_the_stored_config_of_a_record_is_never_built(planned: Planned, tmp_path: Path, config: str | None):
    """The speed of a mixer is in its record; the config beside it may name code, and is not read."""
    cell, ran = small("mixer=attention", "mixer.num_heads=1"), tmp_path / "ran"
    finished(cell)
    (cell.folder / "config.yaml").unlink()
    if config:
        (cell.folder / "config.yaml").write_text(config.format(ran=ran))
    for folder in (tmp_path, cell.folder):
        (folder / "lying_there.py").write_text(f"open({str(ran)!r}, 'w')")
    code, out, _ = planned("mixer=based")
    assert code == 0 and not ran.exists()
    assert rows(out)["based"][-2].endswith(" ~~")


def test_flops_are_those_counted_by_hand():
    """A layer of attention costs a multiplication and an addition for each parameter and scalar of state."""
    one_layer = ("mixer=attention", "model.layers=[mixer]", "n_layers=1")
    cell = small(*one_layer, "optim.batch_size=8", "optim.max_epochs=3")
    model, task = build_model(cell), build_task(cell.config)
    tables = {id(table) for table in (model.embedding, model.head, model.positions)}
    working = sum(p.numel() for p in model.parameters() if id(p) not in tables)
    passes = {"train": 9, "valid": 3, "test": 1}  # forward and backward of three epochs; one look at each
    operations, steps = 0.0, 0
    for split, times in passes.items():
        for i, segment in enumerate(task.segments(split)):  # type: ignore[arg-type]
            n, examples = segment.seq_len, segment.num_examples
            answers = task.sample(split, i, range(1)).positions.shape[1]  # type: ignore[arg-type]
            state = sum(2 * 16 * (n * (j + 1) // 16) for j in range(16)) / 16
            operations += times * examples * 2 * (n * (working + state) + answers * 128 * 16)
            steps += 3 * examples // 8 if split == "train" else 0
    cost = flops.cost(cell, model)
    assert cost.steps == steps
    assert cost.operations == pytest.approx(operations)


SLURM, LAUNCHER = "hydra/launcher=slurm", "hydra.launcher"
ON_SLURM = (SLURM, f"{LAUNCHER}.cells_per_job=5", f"{LAUNCHER}.n_parallel=2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "on this machine, {here} at once: about"),
        ((f"{LAUNCHER}.n_workers=3",), "on this machine, 3 at once: about"),
        ((SLURM,), "12 jobs of 1 cell, 1 at once in each; if 12 run at once: about"),
        (ON_SLURM, "3 jobs of 5 cells, 1 at once in each; if 2 run at once: about"),
    ],
)
def test_the_plan_shows_jobs_and_workers(planned: Planned, words: tuple[str, ...], message: str):
    _, out, _ = planned("mixer=attention", "seed=range(12)", *words)
    assert message.format(here=count("auto", [small()])) in out.splitlines()[-1] and "population" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("5",), "populations: 2 of 5, 1 of 2"),
        (("11",), "populations: 1 of 11 and 1 cell alone"),
        (("auto", f"{LAUNCHER}.n_workers=2"), "populations: 2 of 6, each if it is measured to pay"),
        (("4", SLURM, f"{LAUNCHER}.cells_per_job=6"), "the first job's populations: 1 of 4, 1 of 2"),
        (("4", SLURM), "the first job's populations: none"),
    ],
)
def test_the_plan_shows_the_populations(planned: Planned, words: tuple[str, ...], message: str):
    size, *others = words
    _, out, _ = planned("mixer=attention", "seed=range(12)", f"population={size}", *others)
    assert any(line.startswith(f"{message}; the times") for line in out.splitlines()), out


def test_a_finished_sweep_needs_no_jobs(planned: Planned):
    finished(small("mixer=attention"))
    code, out, _ = planned("mixer=attention", SLURM)
    assert code == 0 and "1 cell: 1 done, 0 to run" in out
    assert out.splitlines()[-1].startswith("0 jobs")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(0, "0 s"), (0.26, "0.26 s"), (89, "89 s"), (90, "1.5 min"), (3600, "60 min"), (5400, "1.5 h")],
        *[(86_400, "24 h"), (129_600, "1.5 d"), (86_400 * 2000, "2,000 d")],
    ],
)
def test_durations_have_a_fitting_unit(seconds: float, text: str):
    assert duration(seconds) == text


CUT = "3 layers end on BaseConv, within a pattern of 2: n_layers=4 ends on LinearAttention"
OTHER_CELL = "bf16-mixed, of trainer=gpu; in 32-true it is another cell"


@pytest.mark.parametrize(
    ("words", "key", "note"),
    [
        ("n_layers=3", "note", CUT),
        ("", "note", None),
        ("n_layers=4", "note", None),
        ("mixer=mamba2 model=mamba2_hybrid", "note", None),
        ("model.layers=[mixer] n_layers=3", "note", None),
        ("model=jamba", "note", None),
        ("trainer=gpu", "precision", OTHER_CELL),
        ("", "precision", None),
    ],
)
def test_a_cut_pattern_and_a_reduced_precision_are_noted(words: str, key: str, note: str | None) -> None:
    assert describe(compose(words.split())).get(key) == note


def test_long_tables_are_cut_short(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for module in (display, score_tables):
        monkeypatch.setattr(module, "MOST_ROWS", 5)
    records = [record | {"knob": {}} for record in fake.records(seeds=1)]
    assert score_tables.result_table(records).row_count == 5
    sweep = display.SweepDisplay(total=51, done=51, how="")
    failures = [Failure(composer().cell([f"seed={seed}"]), "why") for seed in range(7)]
    sweep.report(records, failures)
    out = capsys.readouterr().out
    assert "and 46 more: python -m zoo collect writes them all" in out
    assert out.count("why") == 5 and "and 2 more: python -m zoo.status counts them by error" in out
    sweep.report(records[:5], failures[:5])
    assert "more" not in capsys.readouterr().out
