"""Split cells into settings, which may each be one picture.  Nothing is averaged across settings."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..records.cells import PROTOCOL, load_names, named, word

# keys of a config in which points of one picture differ anyway
OF_POINT = ("lr", "seed", "d_model", "n_layers", "mixer", "layers")


@dataclass(frozen=True)
class Setting:
    """Cells that are comparable: one load, under one protocol.

    table: of `analysis.records.cells.named`, the rows of this setting.
    """

    name: str
    table: pd.DataFrame


def divide(table: pd.DataFrame) -> list[Setting]:
    """Return the settings in the table of `analysis.records.configs`, the one with most cells first.

    Each load is one setting.  If points of a load would look the same, they differ in their protocol (steps,
    block, optim, ...), and then each protocol is a setting.
    Raises ValueError where points look the same and no config explains why.
    """
    by_load = table.groupby(np.array(load_names(table)), sort=False)
    kinds = [
        Setting(" · ".join(filter(None, (protocol, str(load)))) or str(rows["task"].iloc[0]), part)
        for load, rows in by_load
        for protocol, part in _protocols(rows)
    ]
    return sorted(kinds, key=lambda setting: -setting.table["run_id"].nunique())


def complete(setting: Setting) -> tuple[Setting, list[tuple[str, str]]]:
    """Return the setting without finished cells that lack a score, and (run_id, why) for each of these."""
    rows = setting.table
    wanted = set(map(tuple, rows[["split", "slice"]].drop_duplicates().to_numpy()))
    scored = rows.loc[rows["accuracy"].notna() | (rows["status"] == "diverged")]
    has = scored.groupby("run_id")[["split", "slice"]].apply(lambda rows: set(map(tuple, rows.to_numpy())))
    lacking = {str(run_id): sorted(wanted - tested) for run_id, tested in has.items() if wanted - tested}
    lacking |= {str(run_id): sorted(wanted) for run_id in set(rows["run_id"]) - set(has.index)}
    why = [
        (run_id, f"it has no {split} accuracy for slice {name}, which other cells have.")
        for run_id, ((split, name), *_) in sorted(lacking.items())
    ]
    return Setting(setting.name, rows.loc[~rows["run_id"].isin(list(lacking))]), why


def _protocols(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return (words, cells with the columns of `named`) per protocol: one, unless points look the same."""
    try:
        return [("", named(table))]
    except ValueError:
        settings = table.filter(regex=PROTOCOL).map(word).replace("", "null")
        keys = [key for key in settings if key.split(".")[-1] not in OF_POINT and len({*settings[key]}) > 1]
        if not keys:
            raise
        parts = [part for _, part in settings.groupby(keys, sort=True)]
        words = [", ".join(f"{key}={part[key].iloc[0]}" for key in keys) for part in parts]
        return [(name, named(table.loc[part.index])) for name, part in zip(words, parts, strict=True)]
