"""What is registered, read from conf/: nothing is listed by hand, so a new yaml is tested on arrival.

ZOO_LAWS_OF=my_conf python -m pytest tests/mixers/test_mixer_laws.py   # the mixers of a folder of your own
"""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from zoo.config import compose as composing
from zoo.config.cell import Cell
from zoo.config.paths import CONF
from zoo.mixers import cases as checked
from zoo.mixers.cases import DEPTH, WIDTH, Case

FOLDER = Path(os.environ.get("ZOO_LAWS_OF", CONF))


def cases(folder: Path = FOLDER) -> list[Case]:
    """List the cases of every mixer of the folder under test."""
    return checked.cases(folder)


@cache
def composer() -> composing.Composer:
    """One for all tests of a worker: it reads each yaml once."""
    return composing.composer()


def compose(overrides: Iterable[str]) -> Cell:
    return composer().cell(overrides)


def block_yaml(name: str) -> dict[str, Any]:
    """The settings of a block in a model of two layers of width WIDTH."""
    node = OmegaConf.create(
        {"d_model": WIDTH, "n_layers": DEPTH, "block": OmegaConf.load(CONF / "block" / f"{name}.yaml")}
    )
    block: Any = OmegaConf.to_container(node.block, resolve=True)
    return {key: value for key, value in block.items() if key != "about"}
