"""RULER's numbers: the means of its five groups and of all eleven tasks, a panel a mixer, a line a length."""

import pandas as pd

from analysis.drawing.by_series import Axis, draw
from analysis.drawing.style import Style
from analysis.figures.gallery import Picture, Study
from analysis.records import cells
from analysis.statistics import learning_rate
from analysis.statistics.seeds import interval, written
from zoo.tasks.ruler.questions import GROUPS, QUESTIONS, group_means

TASKS = ("ruler_lite",)
NAMES = list(GROUPS)
AXIS = Axis("place", "Group of tasks", base=None, text=lambda place: ["", *NAMES][round(place)])
SCORES = ("accuracy", "exact_rows")
ABOUT = ["point", "mixer", "family", "series", "d_model", "knobs", "state_resident", "causal", "exact_decode"]


def figure(study: Study, style: Style) -> Picture:
    """Of cells that were tested on all eleven tasks."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    tested = table.loc[table["split"] == "test"].merge(chosen[["point", "lr"]], on=["point", "lr"])
    rows = pd.DataFrame(
        [
            row
            for (point, length), own in tested.groupby(["point", "seq_len"])
            for row in _of_length(str(point), int(length), own)
        ]
    )
    rows = rows.merge(table.drop_duplicates("point")[ABOUT], on="point")
    rows["knobs"] = (rows["knobs"] + " seq_len=" + rows["seq_len"].astype(str)).str.strip()
    seeds = " or ".join(map(str, sorted(set(rows["seeds"].tolist()))))
    says = [
        "Task ruler_lite, by length. Right tokens of answers, teacher-forced; Average is of the "
        f"{len(QUESTIONS)} tasks, not of the groups. Mean of {seeds} seeds with min to max. exact_rows in "
        "the table: answers right to the last token, which is what greedy decoding then writes."
    ]
    shown = rows.drop(columns="exact_rows")
    drawn = draw(shown, AXIS, "Test accuracy", says[0], style)
    return Picture(drawn, rows, says, {})


def _of_length(point: str, length: int, own: pd.DataFrame) -> list[dict]:
    """One row a group: its mean in each seed, and over the seeds."""
    seeds = {name: _by_group(own, name) for name in SCORES}
    guess = own.drop_duplicates("subtask").set_index("subtask")["chance"].to_dict()
    found = []
    for place, (group, chance) in enumerate(group_means(guess).items(), 1):
        scores = seeds["accuracy"][group].to_numpy(float)
        low, high, _ = interval(scores)
        found.append(
            {"point": point, "seq_len": length, "group": group, "place": place}
            | {"accuracy": scores.mean(), "low": low, "high": high, "seeds": len(scores)}
            | {"seed_accuracies": written(scores), "chance": chance}
            | {"exact_rows": seeds["exact_rows"][group].mean()}
        )
    return found


def _by_group(own: pd.DataFrame, score: str) -> pd.DataFrame:
    """A row a seed, a column a group; a diverged seed scores 0."""
    wide = own.assign(**{score: own[score].fillna(0.0)}).pivot(
        index="run_id", columns="subtask", values=score
    )
    return pd.DataFrame([group_means(row) for row in wide.to_dict("records")])
