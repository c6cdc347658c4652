"""python -m analysis.figures: what each picture shows, writes, prints and refuses."""

from itertools import chain, product
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.drawing import ends
from analysis.drawing.curves import training_losses
from analysis.drawing.style import PAPER, SCREEN
from analysis.figures import __main__ as command
from analysis.figures import gallery
from analysis.records.ladders import ladders
from analysis.statistics.scored import means
from tests.analysis import fake, study
from tests.analysis.figure_checks import colliding, off_the_page
from tests.command import ROOT, Run, written
from zoo.results.archive import archive
from zoo.results.table import load_metrics

OF_NO_SWEEP = {"forgetting_curve", "knobs", "load_distance", "speed"}
OF_A_MIXTURE = ("based_fig2", "curves", "distance", "heat_map", "loads", "lr_profiles", "mixers", "variants")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> gallery.Study:
    """One load of four slices, three learning rates, divergences."""
    return gallery.Study(fake.write(tmp_path_factory.mktemp("mixture")))


@pytest.fixture(scope="module")
def one_load_each(tmp_path_factory: pytest.TempPathFactory) -> gallery.Study:
    """Two mixers at three widths and three loads: recall grows with the state and falls with the load."""
    skills = {"based": 0.1, "attention": 1.0}
    records = [
        study.record(
            name, min(1.0, skill * width / pairs), seed=seed, d_model=width, state=width,
            slices=[(8 * pairs, pairs)],
        ) | {"state_mixer_paper": width - 16}
        for (name, skill), width, pairs, seed in product(skills.items(), (32, 64, 128), (4, 8, 16), range(3))
    ]  # fmt: skip
    return gallery.Study(study.write(tmp_path_factory.mktemp("loads"), records))


@pytest.fixture(scope="module")
def full_size(tmp_path_factory: pytest.TempPathFactory) -> gallery.Study:
    """Two published points of one figure: one as published, one off."""
    full: dict[str, Any] = {"task": "mqar_based", "slices": study.SEVEN}
    records = study.seeds("attention", (0.999, 1.0, 1.001), d_model=128, **full)
    records += study.seeds("based", (0.6, 0.601, 0.602), feature_dim=16, **full)
    return gallery.Study(study.write(tmp_path_factory.mktemp("full"), records))


def texts(figure: Figure) -> list[str]:
    words = [text.get_text() for text in figure.texts]
    words += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    for ax in figure.axes:
        words += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)]
    return words


def test_every_picture_belongs_to_a_sweep_and_every_study_has_pictures() -> None:
    shown = {name for names in gallery.PICTURES.values() for name in names}
    assert shown <= set(gallery.names()) and set(gallery.names()) - shown <= OF_NO_SWEEP
    sweeps = {path.stem.removeprefix("mini_") for path in (ROOT / "sweeps").glob("*.yaml")}
    assert sweeps | {"demo"} == {name.removeprefix("mini_") for name in gallery.PICTURES}
    assert all(len(gallery.about(name)) < 110 for name in gallery.names())


Drawn = dict[str, gallery.Picture]


@pytest.fixture(scope="module")
def drawn(mixture: gallery.Study) -> Drawn:
    return {name: gallery.draw(name, mixture, SCREEN) for name in OF_A_MIXTURE}


@pytest.mark.parametrize("name", OF_A_MIXTURE)
def test_a_picture_of_a_mixture_names_its_axes_and_how_it_was_made(drawn: Drawn, name: str) -> None:
    picture = drawn[name]
    shown = " ".join(texts(picture.figure))
    assert "accuracy" in shown.lower() and "3 seeds" in picture.sentences[0]
    assert len(picture.rows) > 10 and picture.rows["accuracy"].notna().all()
    assert "".join(picture.sentences[0].split()) in "".join(shown.split())
    labels = [(ax.xaxis.label, ax.yaxis.label, ax.title, *ax.texts) for ax in picture.figure.axes]
    assert not off_the_page([*chain(*labels)], picture.figure)


@pytest.mark.parametrize("name", ["zoology_fig2", "state_scaling", "frontier"])
def test_cells_of_several_loads_share_a_picture(one_load_each: gallery.Study, name: str) -> None:
    picture = gallery.draw(name, one_load_each, PAPER)
    assert {"Based", "Attention"} <= set(picture.rows["series"])
    assert picture.figure.get_figwidth() <= PAPER.width + 0.01


def test_a_capacity_grows_as_the_state_does(one_load_each: gallery.Study) -> None:
    picture = gallery.draw("state_scaling", one_load_each, SCREEN)
    rows = picture.rows.set_index(["series", "d_model"])
    assert rows.loc[("Based", 64), "pairs"] == pytest.approx(2**2.5)  # 1 at 4 pairs, .8 at 8
    assert rows.loc[("Attention", 64), "censored"] == "above"
    assert rows.loc[("Based", 64), ["state", "state_mixer_paper"]].tolist() == pytest.approx([64, 48])
    left, right = (ax.get_xlabel() for ax in picture.figure.axes)
    assert left.startswith("Resident state") and right.startswith("State of one mixer")
    assert "Attention d_model=64" in " ".join(picture.sentences) and not picture.rows["apart"].any()


def test_a_point_whose_seeds_have_not_all_begun_is_hollow(tmp_path: Path) -> None:
    records = [record | {"state_mixer_paper": 9} for record in study.seeds("based", [0.2, 0.9, 0.9])]
    picture = study.drawn("state_scaling", tmp_path / "apart", records)
    assert picture.rows["apart"].tolist() == [True] and "seeds differ by > 0.3" in texts(picture.figure)


def test_recall_falls_with_the_load_and_lines_are_labelled_by_setting(one_load_each: gallery.Study) -> None:
    picture = gallery.draw("loads", one_load_each, SCREEN)
    of = picture.rows.loc[(picture.rows["series"] == "Based") & (picture.rows["d_model"] == 64)]
    assert of.sort_values("num_kv_pairs")["accuracy"].tolist() == pytest.approx([1.0, 0.8, 0.4])
    assert {"32", "64", "128"} <= set(texts(picture.figure))
    assert "(4, 32), (8, 64), (16, 128)" in picture.sentences[0]


def test_a_full_size_study_is_compared_point_by_point(full_size: gallery.Study) -> None:
    picture = gallery.draw("based_fig2", full_size, SCREEN)
    deviation = picture.tables["deviation"].set_index(["mixer", "figure"])
    assert "ordering" not in picture.tables
    assert deviation.loc[("attention", "zoology_results.png"), "verdict"] == "within"
    assert deviation.loc[("based", "zoology_results.png"), "published"] == 0.912
    assert deviation.loc[("based", "Fig. 2"), "verdict"] == "OFF"
    assert "Off: Based" in " ".join(picture.sentences)
    assert len([ax for ax in picture.figure.axes if ax.get_title()]) == 2  # kept, and counted


def test_a_toy_study_is_compared_by_its_ordering_alone(mixture: gallery.Study, drawn: Drawn) -> None:
    picture = drawn["based_fig2"]
    assert set(picture.tables) == {"ordering"}
    assert "sizes and accuracies cannot be compared" in picture.sentences[1]
    titles = [ax.get_title() for ax in picture.figure.axes if ax.get_title()]
    assert titles == ["published", f"ours: {mixture.name}"]
    labels = [ax.get_xlabel().replace("\n", " ") for ax in picture.figure.axes if ax.get_title()]
    assert "in 1024 tokens" in labels[0] and "in 128 tokens" in labels[1]


def test_the_learning_rate_picture_shows_choice_edges_seeds_and_divergence(drawn: Drawn) -> None:
    picture = drawn["lr_profiles"]
    legend = texts(picture.figure)
    assert {"chosen", "a seed", "at an edge of its grid", "diverged"} <= set(legend)
    assert picture.sentences[1].endswith("an edge of its grid (of three rates or more) for: Hyena, Mamba.")
    chosen = picture.rows.loc[picture.rows["chosen"]]
    assert len(chosen) == len(fake.POINTS)
    (ax,) = [ax for ax in picture.figure.axes if ax.get_title().startswith("Hyena")]
    crosses = [tuple(spot) for marks in ax.collections for spot in marks.get_offsets() if spot[1] < 0]
    assert crosses == [(0.01, -0.045)] * 2
    assert ax.get_ylim()[0] < -0.045


def test_labels_at_the_ends_of_lines_do_not_overlap(drawn: Drawn) -> None:
    for ax in [ax for name in ("lr_profiles", "distance", "loads") for ax in drawn[name].figure.axes]:
        assert not colliding([Text.get_window_extent(text) for text in ax.texts])  # without the line to them


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([0.1, 0.5], [0.1, 0.5]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.5, 0.52, 0.9], [0.46, 0.56, 0.9]),
        ([0.98, 0.99, 1.0], [0.8, 0.9, 1.0]),  # pushed down from the upper end
        ([], []),
    ],
)
def test_labels_are_pushed_apart_no_more_than_needed(wanted: list[float], placed: list[float]) -> None:
    assert ends.apart(wanted, 0.1, 0.0, 1.0) == pytest.approx(placed)


def test_ladders_are_points_that_differ_in_one_setting_alone() -> None:
    cells = [(2, 16, "token"), (4, 16, "token"), (2, 32, "token"), (4, 32, "none")]
    records = [
        study.record("se_attn", 0.5, block_size=block, chunk_size=chunk, selection=chosen)
        for block, chunk, chosen in cells
    ]  # fmt: skip
    groups = ladders(means(study.table(records)))
    assert {knob: [(ladder.values, ladder.fixed) for ladder in group] for knob, group in groups.items()} == {
        "block_size": [(["2", "4"], "")],
        "chunk_size": [(["16", "32"], "")],
    }


def test_the_same_results_give_the_same_files(one_load_each: gallery.Study, tmp_path: Path) -> None:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        before = dict(matplotlib.rcParams)
        for out in ("one", "two"):
            picture = gallery.draw("loads", gallery.Study(one_load_each.home), SCREEN)
            paths = gallery.write(picture, tmp_path / out / "loads", SCREEN)
        assert dict(matplotlib.rcParams) == before
    assert [path.name for path in paths] == [f"loads.{kind}" for kind in ("png", "pdf", "csv", "txt")]
    for path in paths:
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()
        assert b"CreationDate" not in path.read_bytes()


def test_one_command_makes_every_picture_of_every_archive(
    one_load_each: gallery.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gallery.PICTURES, "zoology_fig2", ("zoology_fig2", "lr_profiles"))
    archive(one_load_each.home, tmp_path / "in" / "mini_zoology_fig2.zip")
    arguments = ["--committed", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert command.main(arguments) == 1  # one learning rate a point: no profile, and the rest is drawn
    made = sorted(path.name for path in (tmp_path / "out" / "mini_zoology_fig2").iterdir())
    assert made == [f"zoology_fig2{end}" for end in (".csv", ".png", ".txt", "_ordering.csv")]  # no PDF
    rows = pd.read_csv(tmp_path / "out" / "mini_zoology_fig2" / "zoology_fig2.csv")
    assert len(rows) == 18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["basd_fig2", "R"], "No picture 'basd_fig2': did you mean based_fig2"),
        (["xyz", "R"], "No picture 'xyz': there are ar_gap, based_fig2, "),
        (["based_fig2"], "Give the results that based_fig2 shows"),
        (["based_fig2", "nowhere"], "results folder nowhere does not exist"),
        (["frontier", "LONE", "--out", "file"], "file.* cannot be written .*: name another with --out"),
        (["all", "R"], "No picture belongs to a sweep 'R'.*rename it"),
        (["--committed", "R"], "holds no archive"),
        (["curves", "LOADS"], "curves of .*One picture shows one state_seq_len"),
        (["loads", "LONE", "--where", "d_mdel == 64"], "d_mdel"),
        (["loads", "LONE", "--where", "d_model == 65"], "leaves no cell of 2"),
        (["loads", "LONE"], "asked for at several lengths"),
        (["knobs", "LONE"], "one load and differ in one setting alone"),
        (["lr_profiles", "LONE", "--where", "seq_len == 64"], "one learning rate"),
    ],
)
def test_bad_input_is_one_line(
    one_load_each: gallery.Study, cwd: Path, run: Run, arguments: list[str], message: str
) -> None:
    (cwd / "R").mkdir()
    (cwd / "file").touch()
    (cwd / "LOADS").symlink_to(one_load_each.home)
    study.write(cwd / "LONE", [study.record("based", 0.5, slices=[(n, 8)]) for n in (64, 32)])
    run.refused(message, command.main, *arguments)
    assert not (cwd / "nowhere").exists()


@pytest.mark.parametrize("name", ["based_fig2", "heat_map", "distance", "curves"])
def test_a_picture_of_a_single_seed_names_it(tmp_path: Path, name: str) -> None:
    picture = study.drawn(name, tmp_path / "lone", [study.record("based", 0.5, feature_dim=8)])
    assert "One seed" in " ".join(picture.sentences) or "1 seed" in " ".join(picture.sentences)


def test_a_training_loss_is_the_mean_over_the_answers(tmp_path: Path) -> None:
    metrics = load_metrics(study.write(tmp_path, [study.record("based", 0.5)]))
    assert training_losses(metrics)["loss"].tolist() == [3.0, 0.5]


def test_mixers_are_sorted_by_their_middle_size_and_marks_grow_with_the_state(tmp_path: Path) -> None:
    scores = {
        100: {"based": [0.2] * 3, "mamba": [0.1] * 3},
        400: {"based": [0.5] * 3, "mamba": [0.3, 0.6, 0.9]},
        1600: {"based": [1.0] * 3, "mamba": [0.7] * 3},
    }
    records = [cell for n, each in scores.items() for cell in study.mixers(each, state=n, d_model=n)]
    (ax,) = study.drawn("mixers", tmp_path / "lines", records).figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Mamba", "Based"]
    marks = sorted((*c.get_offsets()[0], c.get_sizes()[0]) for c in ax.collections)
    assert [score for y, score, _ in marks if y == 0] == pytest.approx([0.1, 0.3, 0.6, 0.7, 0.9])
    sizes = [size for y, _, size in marks if y == 1]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3


@pytest.mark.parametrize("name", ["based_fig2", "heat_map", "zoology_fig2"])
def test_a_study_in_which_all_diverged_is_drawn_at_zero(tmp_path: Path, name: str) -> None:
    records = study.mixers({"based": [None] * 3, "attention": [None] * 3})
    picture = study.drawn(name, tmp_path / "lost", records)
    assert "A diverged seed counts as 0" in picture.sentences[0]
    assert set(picture.rows["accuracy"]) == {0.0}


def test_a_record_that_cannot_be_read_is_named_and_the_rest_is_drawn(tmp_path: Path, run: Run) -> None:
    home = study.write(tmp_path / "some", study.seeds("based", [0.5] * 3))
    written(home / "broken" / "result.json", '{"schema": 2, "run')
    _, errors = run(command.main, "heat_map", home, "--out", tmp_path / "out", code=3)  # done in part
    assert "warning: " in errors and "broken" in errors
    assert (tmp_path / "out" / "heat_map.png").is_file()


def test_without_arguments_pictures_are_listed_with_their_sources(run: Run) -> None:
    lines = run(command.main)[0].splitlines()
    named = [line for line in lines if line.strip() and line[1] not in " ─"]
    assert [line.split()[0] for line in named[1:]] == gallery.names()
    (line,) = [line for line in named if line.startswith(" zoology_fig2")]
    assert "2312.04927" in line
