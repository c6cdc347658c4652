"""python -m analysis.state_bits: accuracy against bits, its bound, enough bits, claims, rounding."""

from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from analysis import pareto
from analysis.drawing.style import SCREEN
from analysis.figures import gallery
from analysis.state_bits import arithmetic, explained, frontier
from analysis.state_bits.__main__ import main
from analysis.state_bits.answers import answers
from analysis.statistics import paired
from tests.analysis import study
from tests.analysis.report.pages import WEIGHTS, answer
from tests.command import Run, refusal

SLICE = "seq_len=64,num_kv_pairs=8"
FORMS = {"fp32": (32.0, 0.90), "int8": (8.25, 0.899), "int4": (4.25, 0.85), "int3": (3.25, 0.895)}


def answered(home: Path, bits_of_a_scalar: float = 1.0) -> Path:
    """Write eight seeds of Based and one of a copying task, with their answers: int3 loses to fp32 in six."""
    records = study.seeds("based", [0.9] * 8)
    for record in records:
        record["weights"] = WEIGHTS
        record["task_settings"] = {"vocab_size": 8192, "_target_": "zoo.tasks.mqar_probe.MQARProbe"}
    study.write(home, records)
    for record in records:
        rows = [
            {"split": "test", "slice": SLICE, "seq_len": 64, "num_kv_pairs": 8, "format": name,
             "scale": "none" if name == "fp32" else "key", "rounding": "nearest", "every": 1,
             "bits": round(1000 * bits * bits_of_a_scalar), "bits_per_scalar": bits, "rows": 128,
             "state_error": 0.1,
             "accuracy": accuracy + 0.02 * (name == "int3" and record["seed"] > 5)}
            for name, (bits, accuracy) in FORMS.items()
        ]  # fmt: skip
        answer(home / record["run_id"], "state_bits", pd.DataFrame(rows), zero_point=False, rows=128)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return answered(tmp_path / "results")


def test_points_are_means_over_seeds_with_the_limit_of_their_bits(home: Path) -> None:
    points = frontier.points(answers(home)).set_index("format")
    known = {"int3": 0.9, "int4": 0.85, "int8": 0.899, "fp32": 0.9}
    assert points["accuracy"].to_dict() == pytest.approx(known)
    assert points["bits"].to_dict() == {"int3": 3250, "int4": 4250, "int8": 8250, "fp32": 32000}
    assert set(points["seeds"]) == {8} and set(points["limit"]) == {1.0}
    assert frontier.limit(48, SLICE, 8192) == pytest.approx(0.60, abs=0.03)  # half of 8 log2 4096 bits


def test_answers_are_about_the_task_of_their_question(home: Path) -> None:
    own, changed = answers(home), '"settings": {"task": {"vocab_size": 64}, '
    for path in home.glob("*/evaluations/*"):
        text = path.read_text()
        path.write_text(text.replace('"settings": {', changed))
    points = frontier.points(answers(home))
    assert set(points["limit"]) == {1.0} and set(points["vocab_size"]) == {64}
    path.with_name("state_bits-000000000000.csv").write_text(text)  # one cell was asked of both
    with refusal(f"asked of {SLICE} with several task.vocab_size: keep the answers to one"):
        answers(home)
    assert len(answers(home, "task.vocab_size == 64")) == len(own)


def test_a_point_above_what_its_bits_can_hold_is_an_error(home: Path, tmp_path: Path, run: Run) -> None:
    run(pareto.main, home, "--axis", "bits", "--out", tmp_path / "good")
    assert (tmp_path / "good" / "pareto_bits.png").stat().st_size > 10_000
    few = answered(tmp_path / "few", bits_of_a_scalar=0.005)  # 16 bits in int3
    _, errors = run(pareto.main, few, "--axis", "bits", "--out", tmp_path / "bad", code=3)
    lines = errors.splitlines()
    assert len(lines) == 8 * 3 and "in 16 bits (int3 key nearest 1), above 0.2" in "\n".join(lines)


def test_the_picture_names_the_bits_that_are_enough(home: Path) -> None:
    drawn = gallery.draw("state_bits", gallery.Study(home), SCREEN)
    assert set(drawn.tables) == {"enough", "explained"} and len(drawn.rows) == len(FORMS)
    assert drawn.sentences[1:] == [
        f"Based, {SLICE}, scale by key: 8.25 bits a scalar are within 0.01 of fp32 (0.90), 8 seeds."
    ]


def test_enough_bits_are_those_whose_wider_forms_are_all_near_fp32(home: Path) -> None:
    """int3 is within .01 of fp32 and int4 is not: 8 bits are enough, 3 are luck."""
    (row,) = frontier.enough(answers(home)).to_dict("records")
    assert row["bits_per_scalar"] == 8.25 and row["exact"] == pytest.approx(0.9) and row["seeds"] == 8


def test_forms_and_points_that_differ_in_one_setting_are_kept_apart(home: Path) -> None:
    """Rounded every 16 tokens, 3 bits are enough; so are they for a model of twice the width."""
    table = answers(home).assign(**{"evaluation.residual": "bf16"})
    near = table.query("format != 'fp32'").assign(accuracy=0.9)
    for name, value in (("every", 16), ("d_model", 128), ("evaluation.residual", "int8")):
        both = pd.concat([table, near.assign(**{name: value})], ignore_index=True)
        bits = {row[name]: row["bits_per_scalar"] for row in frontier.enough(both).to_dict("records")}
        assert bits[value] == 3.25 and len(bits) == 2 and 8.25 in bits.values()
        points = frontier.points(both).query("format == 'int4'")
        assert sorted(points["accuracy"]) == pytest.approx([0.85, 0.9])


def test_predictions_are_compared_but_are_not_points(home: Path) -> None:
    table = answers(home).assign(state_error=0.5)
    theory = table.loc[table["format"] == "int4"]
    theory = theory.assign(rounding="threshold", accuracy=0.84, state_error=0.4)
    both = pd.concat([table, theory], ignore_index=True)
    (row,) = frontier.predicted(both).to_dict("records")
    assert (row["format"], row["rounding"], row["accuracy_predicted"]) == ("int4", "nearest", 0.84)
    assert row["accuracy"] == pytest.approx(0.85) and row["state_error_predicted"] == 0.4
    assert frontier.points(both).equals(frontier.points(table))
    assert frontier.enough(both).equals(frontier.enough(table))


def test_claims_on_forms(home: Path, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "claims.csv"
    rows = ["lost,format == 'fp32',format == 'int4'", "even,format == 'fp32',format == 'int3'"]
    path.write_text("\n".join(["claim,ahead,behind,slice", *(f'{row},"{SLICE}"' for row in rows)]))
    printed, _ = run(main, "claims", home, path)
    lost, even = (line for line in printed.splitlines() if line[1:5] in ("lost", "even"))
    assert "0.00781" in lost and "0.0156" in lost and lost.rstrip().endswith(paired.HOLDS)
    assert even.rstrip().endswith(paired.OPEN)
    path.write_text(f"claim,ahead,behind,slice\nx,format == 'fp32',rounding == 'nearest',\"{SLICE}\"")
    assert "leaves 4 forms" in run(main, "claims", home, path, code=1)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slice", "seq_len=1"], "No slice 'seq_len=1': choose among seq_len=64,num_kv_pairs=8."),
        (["--bounds", "none"], "--axis bits takes one folder, and no --points, --split or --bounds"),
        (["--where", "mixer == 'gla'"], "leaves no cell"),
    ],
)
def test_bad_options_are_one_line(home: Path, run: Run, words: list[str], message: str) -> None:
    run.refused(message, pareto.main, home, "--axis", "bits", *words)


def test_the_noise_of_stochastic_rounding_is_predicted_and_feedback_has_least() -> None:
    """Predict within 5 % at 8 bits, where nothing is large, without a free parameter."""
    table = arithmetic.table(formats=["int8"], scales=["key"], writes=300).set_index("rule")
    assert table["stochastic"].to_numpy() == pytest.approx(table["predicted"].to_numpy(), rel=0.05)
    for row in table.to_dict("records"):
        assert row["feedback"] < 0.3 * row["nearest"] and row["nearest"] < row["stochastic"]
    lost = table["lost"].to_dict()
    assert lost["sum"] > lost["decayed sum"] > lost["gated delta rule"] > 0.05


def test_the_loss_is_explained_by_the_factors_that_make_it() -> None:
    """The mixer makes a third of the variance, rounding with one scale for all the rest, length nothing."""
    forms = [("fp32", "none", "nearest", 0.9)] + [
        ("int4", scale, rounding, 0.1 * (scale != "key") * (1 if rounding == "nearest" else -1))
        for scale in ("key", "tensor") for rounding in ("nearest", "stochastic")
    ]  # fmt: skip
    table = pd.DataFrame([
        {"run_id": f"{series}-{seed}", "series": series, "seed": seed, "slice": name, "rows": 8,
         "format": form, "scale": scale, "rounding": rounding,
         "accuracy": cost if form == "fp32" else 0.9 - cost - worse}
        for series, worse in (("Based", 0.0), ("Mamba-2", 0.1)) for seed in range(3) for name in ("a", "b")
        for form, scale, rounding, cost in forms
    ])  # fmt: skip
    (row,) = explained.explained(table).to_dict("records")
    assert row["series"] == pytest.approx(1 / 3)
    assert row["slice"] == pytest.approx(0) and row["the rest"] == pytest.approx(0, abs=1e-9)
    assert row["rounding"] + row["scale x rounding"] == pytest.approx(2 / 3)
    unlearned = table.assign(accuracy=table["accuracy"] - 0.5 * (table["series"] == "Based"))
    assert explained.explained(unlearned)["series"].item() == 0
    with pytest.raises(ValueError, match="int4 lacks answers for some of series, scale"):
        explained.explained(table.query("format != 'int4' or scale != 'key' or series != 'Based'"))


def test_a_point_is_compared_with_itself_after_rounding_its_state(tmp_path: Path) -> None:
    """4 bits cost mixers that correct .2 and .1, sums .1 and .05 at 1,600 scalars, half of it at 5,000."""
    lost = {"deltanet": 0.2, "comba": 0.1, "gla": 0.1, "based": 0.05}
    home = tmp_path / "r"
    for mixer, state in product(lost, (1600, 5000)):
        record = study.record(mixer, 0.9, state=state, feature_dim=state)
        study.write(home, [record | {"weights": WEIGHTS}])
        exact, cost = (0.9, lost[mixer]) if state == 1600 else (0.96, lost[mixer] / 2)
        rows = [
            {"split": "test", "slice": name, "format": form, "scale": scale, "rounding": "nearest",
             "every": 1, "bits": 8, "bits_per_scalar": 4.0, "rows": 64, "accuracy": exact - share * cost}
            for name in ("seq_len=16,num_kv_pairs=4", "seq_len=32,num_kv_pairs=8")
            for form, scale, share in (("fp32", "none", 0), ("int4", "key", 1), ("int4", "tensor", 9))
        ]  # fmt: skip
        answer(home / str(record["run_id"]), "state_bits", pd.DataFrame(rows), rows=64)
    worse = study.record("based", 0.5, lr=0.1, state=1600, feature_dim=1600)  # not the chosen learning rate
    study.write(home, [worse | {"weights": WEIGHTS}])
    asked = answer(home / str(worse["run_id"]), "state_bits", pd.DataFrame(rows).assign(accuracy=0.1))
    drawn = gallery.draw("rounded", gallery.Study(home), SCREEN)
    by_point = drawn.rows.set_index(["mixer", "state_resident"])
    assert by_point.loc[("deltanet", 1600), ["fp32", "int4"]].tolist() == pytest.approx([0.9, 0.7])
    assert by_point.loc[("based", 5000), "int4"] == pytest.approx(0.935)
    tests = drawn.tables["tests"].set_index("of")[["a", "b", "n_a", "n_b"]]
    assert tests.loc["rule"].tolist() == pytest.approx([0.15, 0.075, 2, 2])
    assert tests.loc["size"].tolist() == pytest.approx([0.1, 0.05, 4, 4])
    assert drawn.tables["tests"]["ahead"].tolist()[1] == 3
    assert set(drawn.rows["seeds"]) == {1} == set(frontier.points(answers(home))["seeds"])
    assert set(frontier.points(answers(home, "lr == 0.1"))["accuracy"]) == {0.1}
    asked.unlink()
    answer(home / str(record["run_id"]), "state_bits", pd.DataFrame(rows), rows=64, residual="int8")
    with pytest.raises(ValueError, match="asked in several ways"):
        gallery.draw("rounded", gallery.Study(home), SCREEN)


def test_rounded_names_the_evaluation_that_is_missing(tmp_path: Path) -> None:
    record = study.record("based", 0.9)
    home = study.write(tmp_path / "r", [record | {"weights": WEIGHTS}])
    rows = {"format": ["fp32", "int8"], "scale": ["none", "tensor"], "accuracy": [0.9, 0.8]}
    unscaled = pd.DataFrame(rows | {"slice": SLICE, "rounding": "nearest", "every": 1, "rows": 8})
    answer(home / str(record["run_id"]), "state_bits", unscaled)
    with pytest.raises(ValueError, match=r"evaluation\.scales"):
        gallery.draw("rounded", gallery.Study(home), SCREEN)
