"""Made-up cells, one at a time, where `tests.analysis.fake` has none: any task, load, setting."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import pandas as pd

from analysis.drawing.style import SCREEN, Style, rc
from analysis.figures import gallery
from tests.analysis import fake
from tests.registry import composer
from zoo.config import command_line
from zoo.results import table as results_table

SEVEN = [(64, 4), (64, 8), (64, 16), (128, 32), (256, 64), (512, 128), (1024, 256)]  # published slices
FIGURES = Path(__file__).parents[2] / "docs" / "figures"


@dataclass
class FakeStudy:
    """Stand in for `gallery.Study`: cells, and the answers of one evaluation."""

    table: pd.DataFrame
    answers: pd.DataFrame = field(default_factory=pd.DataFrame)
    name: str = ""
    others: pd.DataFrame = field(default_factory=pd.DataFrame)  # of models that are no cells
    layers: dict[str, str] = field(default_factory=dict)

    def of_others(self, name: str) -> pd.DataFrame:
        return self.others

    def evaluations(self, name: str) -> pd.DataFrame:
        assert name == self.name
        return self.answers

    def drawn(self, picture: ModuleType) -> gallery.Picture:
        with matplotlib.rc_context(rc(SCREEN)):
            return picture.figure(self, SCREEN)


def record(
    mixer: str,
    accuracy: float | None,
    *,
    seed: int = 0,
    lr: float = 0.01,
    d_model: int = 64,
    family: str = "linear",
    state: int = 1000,
    paper: int | None = None,
    task: str = "mqar",
    slices: list[tuple[int, int]] | None = None,
    coverage: float = 1.0,
    **settings: Any,
) -> dict[str, Any]:
    """Return result.json of one cell with the same accuracy at every slice; None: it diverged."""
    loads, scored, right = slices or [(64, 8)], accuracy is not None, round(100 * (accuracy or 0.0))
    words = "-".join(f"{key}{value}" for key, value in sorted(settings.items()))
    point = f"{mixer}-{task}-{d_model}-{words}-{loads[0][0]}x{loads[0][1]}"
    scores = {"accuracy": accuracy, "row_accuracy": accuracy, "exact_rows": accuracy, "loss": accuracy}
    return dict.fromkeys(results_table.KEYS) | {
        "run_id": f"{point}-{lr:g}-{seed}", "point": point, "status": "ok" if scored else "diverged",
        "mixer": mixer, "label": mixer.capitalize(), "family": family, "task": task, "d_model": d_model,
        "n_layers": 2, "seed": seed, "lr": lr, "causal": True, "exact_decode": True,
        "parameters": 100 * d_model,
        "state_paper": paper or state, "state_resident": state, "state_touched": state, "state_aux_ints": 0,
        "state_seq_len": max(tokens for tokens, _ in loads), "steps": 100, "wall_seconds": 1.0,
        "examples_per_second": 1.0, "peak_memory_bytes": 1, "accelerator": "cpu", "precision": "32",
        "operations": 1.0, "decode_tokens_per_second": 1.0,
        "state_mixer_resident": state, "mixer_settings": {"d_model": d_model} | settings,
        "task_settings": {"vocab_size": 8192},
        "groups": [fake.counted(*load, 2**i, right) for load in loads for i in (2, 3, 4) if scored],
        "slices": [
            {"split": split, "slice": {"seq_len": tokens, "num_kv_pairs": pairs}}
            | {"rows": 10, "answers": 10 * pairs, "coverage": coverage} | scores
            for split in ("valid", "test")
            for tokens, pairs in loads
        ],
    }  # fmt: skip


def seeds(mixer: str, accuracies: Iterable[float | None], **of: Any) -> list[dict[str, Any]]:
    """Return records of one point, a seed for each accuracy."""
    return [record(mixer, accuracy, seed=seed, **of) for seed, accuracy in enumerate(accuracies)]


def mixers(accuracies: Mapping[str, Iterable[float | None]], **of: Any) -> list[dict[str, Any]]:
    """Return the records of a point of each mixer: name -> the accuracy of each seed."""
    return [cell for name, scores in accuracies.items() for cell in seeds(name, scores, **of)]


table = results_table.table


def write(folder: Path, records: list[dict[str, Any]]) -> Path:
    """Write a results folder with these records and a training curve of two steps beside each."""
    for cell in records:
        final = cell["slices"][0]["accuracy"] or 0.0
        name = ",".join(f"{key}={value}" for key, value in cell["slices"][0]["slice"].items())
        lines = [f'{step},valid,"{name}",accuracy,{final * step / 100:g}' for step in (50, 100)]
        losses = [(50, 32, 3, 2.0), (50, 64, 1, 6.0), (100, 32, 3, 0.5), (100, 64, 1, 0.5)]
        for step, length, answers, loss in losses:
            lines += [
                f"{step},train,seq_len={length},{row}" for row in (f"loss,{loss}", f"answers,{answers}")
            ]
        metrics = "\n".join(["step,split,slice,metric,value", *lines]) + "\n"
        fake.put(folder, cell, {"config.yaml": "seed: 0\n", "env.json": "{}", "metrics.csv": metrics})
    return folder


def batch(sweep: str) -> list[list[str]]:
    """Return the words of each cell of a sweep's file."""
    args = command_line.parser().parse_args(["-m", f"sweep={sweep}"])
    return command_line.spanned(composer(), args)[0]


def drawn(name: str, folder: Path, records: list[dict[str, Any]], style: Style = SCREEN) -> gallery.Picture:
    """Draw a picture of the gallery from records that are written to `folder`."""
    return gallery.draw(name, gallery.Study(write(folder, records)), style)


def is_committed(picture: gallery.Picture, name: str) -> None:
    """Assert that docs/figures holds these very bytes.  After an intended change: make figures."""
    for ending, text in gallery.texts(picture).items():
        assert (FIGURES / f"{name}{ending}").read_text() == text, f"{name}{ending}: make figures"
