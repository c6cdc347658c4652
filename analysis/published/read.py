"""Read the CSV files of this folder: published points, and claims that figures make without numbers."""

from importlib.resources import files

import pandas as pd

POINT = ("source", "figure", "task", "mixer", "d_model", "slice", "accuracy", "reading_error", "note")
# tasks whose numbers are comparable with the published ones
MQAR = ("mqar", "mqar_based", "mqar_based_exact", "mqar_single", "mqar_zoology")


def points(name: str) -> pd.DataFrame:
    """Return a row per published point.

    source, figure: where it was published.  task: stem of our task's yaml.  slice: as `zoo.results` names it,
    or "mean of 7 slices".  mixer: stem of our yaml.  d_model, mixer.<key>: the settings that identify the
    point, NaN where it has none or they are not known.  state: scalars, as the figure counts them; resident:
    what that model keeps, NaN where the settings are not known.
    accuracy: as read off, right to within reading_error.  note: what to know about this point.
    """
    table = _read(name)
    absent = [column for column in POINT if column not in table]
    if absent:
        raise ValueError(f"analysis/published/{name}.csv lacks the column {absent[0]!r}.")
    return table.fillna({"note": ""})


def claims(figure: str) -> pd.DataFrame:
    """Return a figure's claims: figure, source, claim, better, worse, equal, note (see the CSV's head)."""
    table = _read("claims")
    return table.loc[table["figure"] == figure].fillna("").reset_index(drop=True)


def mixers() -> pd.DataFrame:
    """Return one row a published mixer: its yaml's stem, its name in pictures (series) and its family."""
    return _read("mixers").rename(columns={"label": "series"})


def settings(published: pd.DataFrame) -> list[str]:
    """Return the columns that identify a point: d_model and the mixer's settings."""
    return [str(name) for name in published.columns if name == "d_model" or str(name).startswith("mixer.")]


def _read(name: str) -> pd.DataFrame:
    path = files(__name__.rpartition(".")[0]) / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file, comment="#")
