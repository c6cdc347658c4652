"""Fixtures of the evaluation tests: trained cells, and the command."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import Run
from tests.training.tiny import tiny
from zoo import evaluate
from zoo.evaluation.trained import Trained, load
from zoo.launch.run_cell import run_cell

collect_ignore_glob = [] if find_spec("safetensors") else ["test_*.py"]

# cells whose weights differ in kind: tied, shared, buffers filled in training, float64, mixed precision
CELLS = {
    "attention": {"mixer": "attention"},
    "shared": {
        "mixer": "shared_attention",
        "model.layers": "[shared_attention,mamba2,shared_attention]",
        "n_layers": 3,
    },
    "drawn": {
        "mixer": "se_attn",
        "mixer.chunk_size": "[4,8]",
        "mixer.chunk_sampling": "per_chunk",
        "mixer.eval_chunk_size": 4,
    },
    "wide": {"mixer": "performer", "trainer.precision": "64-true", "model.tie_embedding": "false"},
    "mixed": {"mixer": "hyena", "trainer.precision": "bf16-mixed"},
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Map each name in CELLS to the folder of its record; read only."""
    home = tmp_path_factory.mktemp("trained")
    return {name: _trained(home, changes) for name, changes in CELLS.items()}


def _trained(home: Path, changes: dict[str, object]) -> Path:
    cell = tiny(results=home, lr=0.02, **{key.replace(".", "__"): value for key, value in changes.items()})
    run_cell(cell, lambda progress: None)
    return cell.folder


@pytest.fixture(scope="session")
def held(trained: dict[str, Path]) -> Trained:
    """Return the first cell as `zoo.load` returns it; read only."""
    return load(trained["attention"])


@pytest.fixture(scope="session")
def inexact(held: Trained) -> Trained:
    """Return the first cell with a mixer that cannot decode token by token."""
    model = deepcopy(held.model)
    model.mixers[0].exact_decode = False
    return replace(held, model=model)


Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run `python -m zoo.evaluate words`, check its exit code, and return stdout and stderr."""
    return partial(Run(capsys), evaluate.main)


@pytest.fixture
def one(trained: dict[str, Path], tmp_path: Path) -> Path:
    """Return a copy of the first cell that may be changed, alone in its results folder."""
    folder = tmp_path / "results" / trained["attention"].name
    shutil.copytree(trained["attention"], folder)
    return folder
