"""Read the answers to evaluation=state_bits, joined with the cells that gave them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from zoo.results import load_evaluations
from zoo.tasks.base import SPLITS

from ..records import cells
from ..records import where as conditions
from ..records.readable import filtered, readable
from ..statistics.bounds import OF_MQAR, TASK_CLASS, VOCAB_SIZE
from ..statistics.scored import at_chosen_rate

EVALUATION = "state_bits"
OF_PROBE = (*OF_MQAR, "zoo.tasks.mqar_probe.MQARProbe")  # tasks for which the bound of docs/bounds.md holds
ABOUT = ["run_id", "point", "series", "label", "family", "knobs", "seed", "lr", "d_model"]
WIDER = ["zero_point", "residual", "rotate", "block"]  # settings of a question that its rows do not repeat
TASK = r"^task\."
SEGMENTS = [f"task.{split}" for split in SPLITS]  # slices tell them apart
FORM = ["format", "scale", "rounding", "every"]
EXACT = "fp32"
PREDICTED = {"noise": "stochastic", "threshold": "nearest"}  # a form of theory -> the rounding it predicts


def answers(results: Path, where: str = "", slices: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row for each cell, slice and form: the columns of the evaluation, ABOUT, those of the cell's
    own state_codec, those of the task (`of_task`), and its `vocabulary`, vocab_size.

    where: a condition of `analysis.records.where` on these columns.  slices: the slices to keep; empty: all.

    Of the cells that are left, those at their point's chosen learning rate count; a form that was evaluated
    twice, with equally many rows, counts once.
    ValueError, one line: there are no answers, or a slice was asked of a cell in several tasks.
    """
    whole = readable(results).table
    given = once(of_task(load_evaluations(results, EVALUATION), whole))
    table = cells.named(whole).drop_duplicates("run_id")
    codec = [name for name in table if str(name).startswith("state_codec.")]
    joined = given.drop(columns="mixer").merge(table[[*ABOUT, "mixer", *codec]], on="run_id")
    rows = filtered(joined.assign(vocab_size=vocabulary(joined)), where)
    _check_task(rows)
    left = whole.loc[whole["run_id"].isin(rows["run_id"])]
    rows = rows.loc[rows["run_id"].isin(at_chosen_rate(left)["run_id"])]
    known_slices = list(dict.fromkeys(rows["slice"]))
    if unknown := [name for name in slices if name not in known_slices]:
        raise ValueError(f"No slice {unknown[0]!r}: choose among {'; '.join(known_slices)}.")
    return rows.loc[rows["slice"].isin(slices or known_slices)]


def of_task(given: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return answers of `load_evaluations` with the settings of the task that each is about, as in `table`
    (of `zoo.results.load`): those of the question's task, else of the cell's own."""
    own = table.drop_duplicates("run_id")
    given = given.rename(columns={"task._target_": TASK_CLASS}).drop(columns=SEGMENTS, errors="ignore")
    for name in own.filter(regex=TASK):
        known = dict(zip(own["run_id"], own[name], strict=True))
        of_cell = pd.Series([known.get(run_id) for run_id in given["run_id"]], given.index)
        given[name] = given[name].where(given[name].notna(), of_cell) if name in given else of_cell
    return given


def once(given: pd.DataFrame) -> pd.DataFrame:
    """Return answers of `of_task` without those to a form that was evaluated before with equally many rows
    of the same task."""
    known = [name for name in (f"evaluation.{each}" for each in WIDER) if name in given]
    key = given[["run_id", "slice", "rows", *FORM, *known, *given.filter(regex=TASK)]].astype(str)
    key.loc[given["format"] == EXACT, known] = ""  # the exact state has none of these settings
    return given.loc[~key.duplicated()]


def varying(answers: pd.DataFrame) -> list[str]:
    """Return which of the width, `every` and WIDER differ within a series: they tell its forms apart."""
    names = ["d_model", "every", *(f"evaluation.{each}" for each in WIDER)]
    known = answers.groupby("series")[[name for name in names if name in answers]]
    return [str(name) for name, most in known.nunique().max().items() if most > 1]


def scores(answers: pd.DataFrame, condition: str, name: str) -> pd.Series:
    """Return the accuracy by seed of the one form of one point that fulfils a condition on the columns.

    ValueError, one line: no form or several fulfil it.
    """
    rows = conditions.where(answers, condition)
    rows = rows.loc[rows["slice"] == name]
    left = len(rows.drop_duplicates(["point", *FORM]))
    if left != 1 or rows["seed"].duplicated().any():
        raise ValueError(f"{condition!r} leaves {left} forms of {name}, or one asked twice: name one.")
    return pd.Series(rows["accuracy"].to_numpy(), index=rows["seed"].to_numpy())


def lost(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of forms that round, with accuracy_exact, the accuracy of the same cell and rows in
    EXACT, and lost, accuracy_exact - accuracy."""
    exact = answers.loc[answers["format"] == EXACT, ["run_id", "slice", "rows", "accuracy"]]
    rounded = answers.loc[(answers["scale"] != "none") & ~answers["rounding"].isin(list(PREDICTED))]
    both = rounded.merge(exact, on=["run_id", "slice", "rows"], suffixes=("", "_exact"))
    return both.assign(lost=both["accuracy_exact"] - both["accuracy"])


def vocabulary(given: pd.DataFrame) -> list[float]:
    """Return the vocabulary of the task of each answer; NaN where it is neither MQAR nor its probe."""
    if VOCAB_SIZE not in given or TASK_CLASS not in given:
        return [float("nan")] * len(given)
    both = zip(given[VOCAB_SIZE], given[TASK_CLASS], strict=True)
    return [float(size) if kind in OF_PROBE else float("nan") for size, kind in both]


def _check_task(rows: pd.DataFrame) -> None:
    for name in rows.filter(regex=TASK):
        asked = set(zip(rows["run_id"], rows["slice"], map(str, rows[name]), strict=True))
        counts = Counter((run_id, slice_) for run_id, slice_, _ in asked)
        if several := [slice_ for (_, slice_), count in counts.items() if count > 1]:
            raise ValueError(
                f"{EVALUATION} was asked of {min(several)} with several {name}: keep the answers to one, in "
                "evaluations/ or with --where."
            )
