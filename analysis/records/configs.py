"""Add to a table the settings that its records lack: what config.yaml says of training, block and model.

Only the sections of PROTOCOL are parsed, each text once: a thousand cells share few of them, and parsing a
thousand whole configs takes seconds.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd
import yaml

from zoo.common.foreign import all_visible
from zoo.config.cell import MACHINE_ONLY_TRAINER
from zoo.config.settings import flat
from zoo.results import table as results_table
from zoo.results.home import Home, text

from .cells import PROTOCOL, word

_SECTION = re.compile(rf"{PROTOCOL}.*\n(?:[ -].*\n)*", re.MULTILINE)
_LAYERS = re.compile(r"^  layers:\n(?:  [- ].*\n)*", re.MULTILINE)
_CLASS = re.compile(r"^  - class: .*?(\w+)$", re.MULTILINE)
_OF_MACHINE = {f"trainer.{name}" for name in MACHINE_ONLY_TRAINER}


def table(
    records: Sequence[dict[str, Any]], folders: Mapping[str, Home]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table of `zoo.results.load` with a column for each setting of PROTOCOL that varies in it.

    "optim.weight_decay", "optim.class", "max_examples"; "model.layers": classes.  folders: run_id -> folder.
    Second: run_id -> why its config.yaml could not be read, so that its settings are in no column.
    """
    table = results_table.table(records)
    cells = table.sort_values(["seed", "lr"]).drop_duplicates("point")
    known, unread = dict[Any, dict[str, Any]](), dict[str, str]()
    for point, run in zip(cells["point"], cells["run_id"], strict=True):
        try:
            known[point] = _config(folders[run])
        except (ValueError, TypeError, AttributeError, yaml.YAMLError, RecursionError):
            known[point], unread[run] = {}, "its config.yaml cannot be read: its settings are not compared"
    configs = pd.DataFrame(list(known.values()), index=pd.Index(known))
    varying = [name for name in configs if len({*configs[name].map(word)}) > 1]
    return table.join(configs[varying], on="point"), unread


def _config(folder: Home) -> dict[str, Any]:
    """Return dotted key -> value of the sections PROTOCOL of a cell's config; {} if it has none."""
    if not (folder / "config.yaml").is_file():
        return {}
    content = text(folder, "config.yaml", linked=False).replace("_target_:", "class:")
    content = _LAYERS.sub(lambda of: f"  layers: {', '.join(_CLASS.findall(of[0]))}\n", content)
    return {key: value for one in _SECTION.findall(content) for key, value in _settings(one).items()}


@cache
def _settings(section: str) -> dict[str, Any]:
    if "&" in section:
        raise ValueError("an anchor could repeat much text: the config of a cell has none")
    read = flat("", all_visible(yaml.safe_load(section)))
    return {key: value for key, value in read if key not in _OF_MACHINE and ".about." not in key}
