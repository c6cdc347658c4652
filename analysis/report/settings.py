"""Split cells into settings, which may each be one picture.  Nothing is averaged across settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..records.cells import load_names, named, word

ConfigOf = Callable[[str], dict[str, Any]]
# keys of a config in which points of one picture differ anyway, or that describe where a cell ran
OF_POINT = ("lr", "seed", "d_model", "n_layers", "mixer", "results", "logger")


@dataclass(frozen=True)
class Setting:
    """Cells that are comparable: one load, under one protocol.

    table: of `analysis.records.cells.named`, the rows of this setting.
    """

    name: str
    table: pd.DataFrame


def divide(table: pd.DataFrame, config_of: ConfigOf) -> list[Setting]:
    """Return the settings in the table of `zoo.results.load`, the one with most cells first.

    Each load is one setting.  If points of a load would look the same, they differ in their protocol (steps,
    block, optim, ...), and then each protocol is a setting.  config_of: run_id -> dotted key -> value of its
    config, {} where unknown; called only for such loads.
    Raises ValueError where points look the same and no config explains why.
    """
    by_load = table.groupby(np.array(load_names(table)), sort=False)
    kinds = [
        Setting(" · ".join(filter(None, (protocol, str(load)))) or str(rows["task"].iloc[0]), part)
        for load, rows in by_load
        for protocol, part in _protocols(rows, config_of)
    ]
    return sorted(kinds, key=lambda setting: -setting.table["run_id"].nunique())


def complete(setting: Setting) -> tuple[Setting, list[tuple[str, str]]]:
    """Return the setting without finished cells that lack a score, and (run_id, why) for each of these."""
    rows = setting.table
    wanted = set(map(tuple, rows[["split", "slice"]].drop_duplicates().to_numpy()))
    scored = rows.loc[rows["accuracy"].notna() | (rows["status"] == "diverged")]
    has = scored.groupby("run_id")[["split", "slice"]].apply(
        lambda tested: set(map(tuple, tested.to_numpy()))
    )
    lacking = {str(run_id): sorted(wanted - tested) for run_id, tested in has.items() if wanted - tested}
    lacking |= {str(run_id): sorted(wanted) for run_id in set(rows["run_id"]) - set(has.index)}
    why = [
        (run_id, f"it has no {split} accuracy for slice {name}, which other cells have.")
        for run_id, ((split, name), *_) in sorted(lacking.items())
    ]
    return Setting(setting.name, rows.loc[~rows["run_id"].isin(list(lacking))]), why


def _protocols(table: pd.DataFrame, config_of: ConfigOf) -> list[tuple[str, pd.DataFrame]]:
    """Return (words, cells with the columns of `named`) per protocol: one, unless points look the same."""
    try:
        return [("", named(table))]
    except ValueError:
        return [(words, named(part)) for words, part in _apart(table, config_of)]


def _apart(table: pd.DataFrame, config_of: ConfigOf) -> list[tuple[str, pd.DataFrame]]:
    cells = table.drop_duplicates("point")
    known = {point: config_of(run_id) for point, run_id in zip(cells["point"], cells["run_id"], strict=True)}
    configs = pd.DataFrame.from_dict(known, orient="index").map(word)
    differing = [str(key) for key in configs if not _of_point(str(key)) and len(set(configs[key])) > 1]
    if not differing:
        return [("", table)]
    return [
        (_in_words(differing, values), table.loc[table["point"].isin(group.index.tolist())])
        for values, group in configs.groupby(differing, sort=True)
    ]


def _in_words(keys: list[str], values: Any) -> str:
    """Name the values of keys: "optim.max_epochs=4, block.mlp=none"."""
    return ", ".join(f"{key}={value or 'null'}" for key, value in zip(keys, values, strict=True))


def _of_point(key: str) -> bool:
    parts = key.split(".")
    return (
        parts[0] in OF_POINT
        or parts[-1] in OF_POINT
        or parts[:2] == ["model", "layers"]
        or parts[0] == "task"
    )
