"""Make the tables from which quoted numbers are computed, by the names that docs/quotes.yaml gives them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd

from .. import claims, recall_gap
from ..figures.gallery import Study
from ..records import readable, written
from ..records.cells import identify, seed_scores, slices
from ..statistics import groups, learning_rate, ranks, scored
from ..statistics.paired import CLAIMED, at_equal_state, compare
from ..statistics.points import points
from ..statistics.uncertainty import at_chosen

FIGURES = ("recall_gap",)  # tables of several studies
ADAPTED = ("mini_adapt", "mini_se_attn")  # prefixes of the studies whose claims form the table `claims`


def between(root: Path, study: str, cells: str, ahead: str, behind: str, name: str) -> pd.DataFrame:
    """Return `paired.compare` of the two points that the conditions name, as a table of one row."""
    table = Study(_archive(root, study), cells).table
    sides = [claims.scores(table, side, name) for side in (ahead, behind)]
    return pd.DataFrame([compare(*sides)])


def _archive(root: Path, study: str) -> Path:
    return root / "docs" / "results" / f"{study}.zip"


@cache
def table(root: Path, of: str, cells: str) -> pd.DataFrame:
    """Return a table by its name in the file.  ValueError or OSError: there is no such table."""
    if "/" in of or of in FIGURES:
        at = root / "analysis" if of.startswith("published/") else root / "docs" / "figures"
        return readable.filtered(pd.read_csv(at / f"{of}.csv", comment="#"), cells)
    if of in _OF_STUDIES:
        return _OF_STUDIES[of](root)
    name, _, kind = of.partition(" ")
    study = Study(_archive(root, name.partition(".")[0]), cells)  # STUDY.LATER claims
    if kind == "claims":
        claimed = written.read(root / "sweeps" / f"{name}.claims.csv", CLAIMED)
        return claims.check(readable.readable(study.home).table, claimed)
    if kind in _MAKERS:
        return _MAKERS[kind](study.table)
    if kind in groups.names(study.groups):
        return _of_group(study, kind)
    answers = study.evaluations(kind)
    return answers.merge(study.table.drop_duplicates("run_id")[["run_id", "point"]], on="run_id")


def _all_claims(root: Path) -> pd.DataFrame:
    written_down = sorted(path.name.partition(".")[0] for path in (root / "sweeps").glob("*.claims.csv"))
    studies = [study for study in written_down if study.startswith(ADAPTED)]
    return pd.concat([table(root, f"{study} claims", "") for study in studies], ignore_index=True)


def _rank_correlation(root: Path) -> pd.DataFrame:
    text, recall = (Study(_archive(root, name)) for name in ("mini_forgetting", "mini_forgetting_mqar"))
    return pd.DataFrame([recall_gap.correlation(recall_gap.joined(text, recall))])


_OF_STUDIES = {"claims": _all_claims, "rank_correlation": _rank_correlation}


def _of_group(study: Study, name: str) -> pd.DataFrame:
    """Return the accuracy by the values of a group of the task's answers, slice by slice."""
    table, chosen = study.table, learning_rate.choose(study.table)
    rows = groups.by_group(study.groups, name, table, chosen)
    about = _slices(table)
    known = [column for column in about if column not in rows or column in ("point", "slice")]
    return rows.merge(about[known], on=["point", "slice"])


def _slices(table: pd.DataFrame) -> pd.DataFrame:
    """Return the points slice by slice, with a column for every key of any slice, as tasks differ in keys."""
    rows = scored.alone(table)
    parts = [dict(part.split("=") for part in name.split(",")) for name in rows["slice"]]
    return rows.assign(**{k: [float(part.get(k, "nan")) for part in parts] for k in set().union(*parts)})


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell: its accuracy over all test slices, and its settings."""
    scores = seed_scores(table, "test", slices(table, "test")).drop(columns="coverage")
    about = table.drop_duplicates("run_id")
    return scores.merge(about[["run_id", *(name for name in about if name not in scores)]], on="run_id")


def _at_equal_state(table: pd.DataFrame, x: str = "state_resident") -> pd.DataFrame:
    named, chosen = identify(table), learning_rate.choose(table)
    names = slices(named, "test")
    rows = points(named, chosen, split="test", slices=names)
    return at_equal_state(rows, at_chosen(named, chosen, "test", names), x)


def _block(table: pd.DataFrame) -> pd.DataFrame:
    return ranks.block(ranks.complete(scored.means(table)))


_MAKERS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "": scored.means,
    "slices": _slices,
    "cells": _cells,
    "rows": lambda table: table.loc[table["split"] == "test"],
    "equal": _at_equal_state,
    "equal_paper": lambda table: _at_equal_state(table, "state_paper"),
    "mean_ranks": lambda table: ranks.mean_ranks(_block(table)).rename("mean_rank").reset_index(),
    "task_pairs": lambda table: ranks.between_tasks(_block(table)),
}
