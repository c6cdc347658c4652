"""The optimizer's groups, the schedule, the counts and the logger."""

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.tiny import STEPS, optim, scores, tiny
from zoo.config.cell import Cell
from zoo.config.settings import OptimConfig
from zoo.evaluation.scores import Tally, pooled_row_accuracy, rows_at_once
from zoo.model import build_model
from zoo.results.metrics_csv import train_rows
from zoo.results.outcome import InGroup, Score
from zoo.tasks.base import IGNORED, Batch
from zoo.tasks.groups import Distance, Words
from zoo.training.check import check
from zoo.training.lr_schedule import lr_factor
from zoo.training.optimizer import make_optimizer
from zoo.training.train import train


def decays(model: nn.Module, config: OptimConfig) -> dict[str, float]:
    names = {id(p): name for name, p in model.named_parameters()}
    groups = make_optimizer(model, config, 1e-3).param_groups
    return {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}


def test_decay_falls_on_matrices_that_are_not_flagged():
    model = build_model(tiny(block__mlp="gelu"))
    flagged = nn.Parameter(torch.zeros(3, 3))
    flagged.no_weight_decay = True  # type: ignore[attr-defined]
    model.register_parameter("flagged", flagged)
    weight_decays = decays(model, optim(weight_decay=0.25))
    assert set(weight_decays) == {name for name, _ in model.named_parameters()}
    assert weight_decays["flagged"] == 0.0 and weight_decays["embedding"] == 0.25
    assert weight_decays["blocks.0.mlp.up_proj.weight"] == 0.25
    assert weight_decays["blocks.0.mlp.up_proj.bias"] == 0.0
    assert all(decay == 0.0 for name, decay in weight_decays.items() if "norm" in name)
    assert set(decays(model, optim(decay_all=True)).values()) == {0.1}


def test_cosine_per_epoch_equals_torchs():
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5, eta_min=0.0)
    config = optim(max_epochs=5, schedule_every="epoch", warmup=0.0)
    for epoch in range(5):
        for step in range(epoch * 7, epoch * 7 + 7):
            assert lr_factor(config, step, 35) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()


def test_warm_up_rises_to_the_peak_and_the_cosine_falls_from_it():
    config = optim(warmup=0.25)
    factors = [lr_factor(config, step, 40) for step in range(40)]
    assert factors[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert factors[10] == 1.0 and factors[25] == pytest.approx(0.5)
    assert all(a > b > 0 for a, b in pairwise(factors[10:]))


def test_constant_and_wsd_stay_at_the_peak_after_the_warm_up():
    assert {lr_factor(optim(warmup=0.25, schedule="constant"), step, 40) for step in range(9, 40)} == {1.0}
    held = [lr_factor(optim(warmup=0.25, schedule="wsd"), step, 40) for step in range(40)]
    assert held[:10] == [(step + 1) / 10 for step in range(10)] and set(held[10:37]) == {1.0}
    assert held[36:] == [1.0, 0.75, 0.5, 0.25]


def test_an_epoch_schedule_never_exceeds_the_peak_after_a_warm_up_inside_an_epoch():
    config = optim(max_epochs=4, schedule_every="epoch", warmup=0.1)
    factors = [lr_factor(config, step, 40) for step in range(40)]
    assert max(factors) == 1.0 and factors[4:10] == [1.0] * 6
    assert len(set(factors[10:20])) == 1 and factors[10] < 1


def scored(answers: list[list[int]], best: list[list[int]], losses: list[float], far: list[list[int]]) -> Any:
    """Return the arguments of Tally.add, which ignores inputs and positions."""
    target = torch.tensor(answers)
    batch = Batch(target, target, target, {"distance": torch.tensor(far), "kind": 2 * (target > 2)})
    return batch, torch.tensor(losses), torch.tensor(best).flatten()


def test_a_tally_adds_batches_of_unequal_size_without_ignored_answers():
    tally, no = Tally({"distance": Distance(), "kind": Words(("kept", "lost", "new"))}), IGNORED
    first = [[1, 2, no], [4, no, 5]], [[1, 2, 3], [4, 4, 0]], [1.0, 3.0, 0.0, 5.0, 0.0, 7.0]
    tally.add(*scored(*first, far=[[1, 2, -7], [4, 0, 5]]))
    tally.add(*scored([[7, 8]], [[8, 7]], [0.0, 2.0], far=[[3, 8]]))
    assert tally.score() == Score(
        accuracy=0.5, row_accuracy=0.5, exact_rows=1 / 3, loss=3.0, answers=6, rows=3
    )
    near, two, four, eight, *rest = tally.by_group()
    assert (near, two) == (InGroup("distance", 1, 1, 1), InGroup("distance", 2, 1, 1))
    assert (four, eight) == (InGroup("distance", 4, 2, 1), InGroup("distance", 8, 2, 0))
    assert rest == [InGroup("kind", "kept", 2, 2), InGroup("kind", "new", 4, 1)]


def test_the_pooled_accuracy_weighs_rows():
    score = Score(accuracy=0.0, row_accuracy=1.0, exact_rows=0.0, loss=0.0, answers=100, rows=1)
    assert pooled_row_accuracy({"a": score, "b": replace(score, row_accuracy=0.0, rows=3)}) == 0.25


def test_train_rows_weigh_batches_by_their_answers():
    rows = train_rows(9, [("a", 1, 4.0), ("b", 5, 2.0), ("a", 3, 8.0)])
    assert rows == [
        (9, "train", "a", "loss", 7.0),
        (9, "train", "a", "answers", 4),
        (9, "train", "b", "loss", 2.0),
        (9, "train", "b", "answers", 5),
    ]


def logged(config: dict[str, Any], choice: str = "other") -> Cell:
    cell = tiny()
    return Cell(cell.config | {"logger": config}, cell.choices | {"logger": choice})


def test_a_logger_without_its_package_is_refused_with_the_install_command():
    cell = logged({"_target_": "does.not.matter", "requires": "no_such_package"}, "fancy")
    with pytest.raises(
        ValueError,
        match=r"logger=fancy needs no_such_package: pip install .no_such_package., or use logger=csv",
    ):
        check(cell)


def test_a_logger_gets_every_score_and_the_cells_folder(tmp_path: Path):
    logger = {"_target_": "pytorch_lightning.loggers.CSVLogger", "requires": "json", "name": "x"}
    outcome = train(logged(logger), tmp_path)
    lines = (tmp_path / "x" / "version_0" / "metrics.csv").read_text().splitlines()
    last = [row for row in csv.DictReader(lines) if row["step"] == str(STEPS)]
    for name, score in scores(outcome, "test").items():
        values = [row[f"test/{name}/accuracy"] for row in last]
        assert [float(value) for value in values if value] == [score["accuracy"]]


@pytest.mark.parametrize(
    ("batch_size", "seq_len", "device", "rows"),
    [
        (32, 64, "cpu", 32),
        (32, 64, "cuda", 256),
        (32, 1024, "cuda", 64),
        (32, 65536, "cuda", 32),
        (2, 4096, "cuda", 4),
    ],
)
def test_a_gpu_evaluates_more_rows_at_once(batch_size: int, seq_len: int, device: str, rows: int):
    assert rows_at_once(batch_size, seq_len, device) == rows
