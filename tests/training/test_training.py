"""The loss, metrics and record of train(), divergence, and the effect of settings."""

import csv
import json
import math
import random
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F

from tests.command import DONE
from tests.population.together import fresh
from tests.training.tiny import STEPS, checkpoint, scores, tiny
from zoo.kernels.linear_cross_entropy import linear_cross_entropy
from zoo.launch.run_cell import record
from zoo.model import build_model
from zoo.results.checked import mistake
from zoo.results.outcome import Progress
from zoo.results.record import Outcome
from zoo.tasks.batches import BatchStream
from zoo.tasks.build import build_task
from zoo.training import runs, single_step
from zoo.training.check import check
from zoo.training.loss import answers_loss
from zoo.training.train import train


class Trained(NamedTuple):
    folder: Path
    outcome: Outcome
    reports: list[Progress]
    weights: dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The tiny cell, trained once for all tests of what it leaves."""
    folder, reports = tmp_path_factory.mktemp("usual"), []
    return Trained(folder, train(tiny(), folder, reports.append), reports, checkpoint(folder)["model"])


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "metrics.csv").read_text().splitlines()))


def test_loss_and_gradients_are_those_of_all_logits_and_a_mask():
    cell = tiny(block="zoology")
    model, task = build_model(cell).double().eval(), build_task(cell.config)
    for segment in range(2):
        batch = task.sample("train", segment, range(5))
        labels = torch.full_like(batch.inputs, -100).scatter_(1, batch.positions, batch.answers)
        logits = model.logits(model(batch.inputs))
        full = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        ours = answers_loss(model, batch)
        torch.testing.assert_close(ours, full, rtol=1e-10, atol=1e-12)
        gradients = [torch.autograd.grad(loss, [*model.parameters()]) for loss in (ours, full)]
        torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-10)


def test_the_state_of_an_open_chunk_counts(tmp_path: Path):
    """The peak counts: after 16 tokens every chunk is closed, and the state is empty."""
    outcome = train(tiny(mixer="se_attn_no_mem", mixer__chunk_size=8, optim__max_epochs=1), tmp_path)
    assert outcome["state_seq_len"] == 16
    assert outcome.get("state_mixer_touched") == outcome["state_mixer_resident"] == 2 * 16 * 7


def test_a_failed_timing_loses_only_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fails = Mock(side_effect=torch.OutOfMemoryError("no room for 32 sequences\nTried to allocate 20 GiB"))
    monkeypatch.setattr("zoo.training.conclusion.decode_tokens_per_second", fails)
    cell = tiny(optim__max_epochs=1)
    result = record(cell, train(cell, tmp_path))
    assert result["status"] == "ok" and result["slices"][0]["accuracy"] is not None
    assert result["decode_tokens_per_second"] is None
    assert result["decode_missing"] == "OutOfMemoryError: no room for 32 sequences"


def test_one_cell_leaves_a_whole_record(usual: Trained):
    outcome = usual.outcome
    assert outcome["status"] == "ok" and outcome["diverged_step"] is None
    assert outcome["steps"] == outcome["total_steps"] == STEPS and outcome["epochs"] == 2
    assert outcome["state_seq_len"] == 16
    assert outcome["parameters"] == sum(p.numel() for p in build_model(tiny()).parameters())
    assert outcome["parameters"] - outcome["parameters_without_embedding"] == 24 * 16
    assert outcome["wall_seconds"] > 0 and (outcome["examples_per_second"] or 0) > 0
    assert outcome["peak_memory_bytes"] > 10**7
    assert json.loads(json.dumps(outcome)) == outcome and mistake(outcome, Outcome) is None
    sizes = {
        (split, name): (score["rows"], score["answers"])
        for split in ("valid", "test")
        for name, score in scores(outcome, split).items()
    }
    assert sizes == {
        ("valid", "seq_len=8,num_kv_pairs=2"): (6, 12),
        ("valid", "seq_len=12,num_kv_pairs=3"): (3, 9),
        ("test", "seq_len=8,num_kv_pairs=2"): (6, 12),
        ("test", "seq_len=16,num_kv_pairs=4"): (5, 20),
    }
    assert usual.reports[-1].step == STEPS and usual.reports[-1].valid_accuracy is not None


def test_metrics_are_tidy_and_agree_with_the_outcome(usual: Trained):
    rows = rows_of(usual.folder)
    assert list(rows[0]) == ["step", "split", "slice", "metric", "value"]
    assert len({tuple(row.values())[:4] for row in rows}) == len(rows), "a number is written twice"
    assert {(int(r["step"]), r["split"]) for r in rows} == {
        (7, "train"), (7, "valid"), (14, "train"), (14, "valid"), (14, "test"),
    }  # fmt: skip
    for row in rows:
        if int(row["step"]) == STEPS and row["split"] != "train":
            score = scores(usual.outcome, row["split"])[row["slice"]]
            assert float(row["value"]) == score[row["metric"]]  # pyright: ignore
    trained = [int(r["value"]) for r in rows if r["split"] == "train" and r["metric"] == "answers"]
    assert sum(trained) == 2 * (4 * 4 * 2 + 3 * 4 * 3)


def test_the_test_split_is_scored_as_by_hand(usual: Trained):
    model, task = build_model(tiny()).eval(), build_task(tiny().config)
    model.load_state_dict(usual.weights)
    for i, segment in enumerate(task.segments("test")):
        batch = task.sample("test", i, range(segment.num_examples))
        score = scores(usual.outcome, "test")[segment.name]
        with torch.no_grad():
            logits = model.logits(model(batch.inputs))[
                torch.arange(len(batch.inputs))[:, None], batch.positions
            ]
        right = logits.argmax(-1) == batch.answers
        assert score["accuracy"] == pytest.approx(right.double().mean().item())
        assert score["row_accuracy"] == pytest.approx(right.double().mean(1).mean().item())
        assert score["exact_rows"] == pytest.approx(right.all(1).double().mean().item())
        loss = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten()).item()
        assert score["loss"] == pytest.approx(loss, rel=1e-5)


def test_the_same_cell_gives_the_same_bytes_and_another_seed_others(tmp_path: Path, usual: Trained):
    for name, cell in {"same": tiny(), "other": tiny(seed=1)}.items():
        torch.manual_seed(random.randrange(1000))
        train(cell, fresh(tmp_path / name))
    folders = usual.folder, tmp_path / "same", tmp_path / "other"
    first, same, other = ((folder / "metrics.csv").read_bytes() for folder in folders)
    assert first == same != other


def test_nothing_outside_moves_and_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    torch.manual_seed(5)
    expected = torch.randn(2)
    torch.manual_seed(5)
    torch.set_num_threads(2)
    inside: list[int] = []
    train(tiny(trainer__threads=1), tmp_path, lambda progress: inside.append(torch.get_num_threads()))
    assert torch.get_num_threads() == 2 and set(inside) == {1}
    assert torch.equal(torch.randn(2), expected)
    assert torch.is_grad_enabled()
    assert capfd.readouterr() == ("", "")
    trained = DONE | {"last.ckpt"}
    assert {path.name for path in tmp_path.iterdir()} == trained - {"config.yaml", "env.json", "result.json"}


@pytest.mark.parametrize("look_every", [1, 4, 100])
def test_a_nan_loss_ends_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look_every: int):
    calls = []

    def poisoned(model: Any, batch: Any) -> torch.Tensor:
        calls.append(1)
        return answers_loss(model, batch) * (math.nan if len(calls) >= 10 else 1)

    monkeypatch.setattr(single_step, "answers_loss", poisoned)
    monkeypatch.setattr(runs, "LOOK_EVERY", {"cpu": look_every})  # as on a GPU
    cell = tiny(optim__schedule="constant", optim__warmup=0.0, lr=0.002)
    outcome = train(cell, tmp_path)
    assert outcome["status"] == "diverged"
    assert outcome["diverged_step"] == outcome["steps"] == 10 and outcome["diverged_lr"] == 0.002
    assert scores(outcome, "test") == scores(outcome, "valid") == {} and len(outcome["slices"]) == 4
    last = [row for row in rows_of(tmp_path) if row["step"] == "10"]
    assert last and any(math.isnan(float(row["value"])) for row in last)
    assert mistake(outcome, Outcome) is None


def test_eval_batch_size_changes_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: Trained):
    sizes: list[tuple[str, int]] = []

    class Spy(BatchStream):
        def __init__(self, task: Any, split: Any, batch_size: int, device: Any) -> None:
            sizes.append((split, batch_size))
            super().__init__(task, split, batch_size, device)

    monkeypatch.setattr("zoo.training.build.BatchStream", Spy)
    large = train(tiny(optim__eval_batch_size=100), tmp_path)
    assert sizes == [("train", 4), ("valid", 100), ("test", 100)]
    for name, score in scores(usual.outcome, "test").items():
        assert score["loss"] == pytest.approx(scores(large, "test")[name]["loss"], rel=1e-6)


def near_and_not_the_same(folder: Path, usual: Trained) -> None:
    mine, theirs = (model["embedding"] for model in (checkpoint(folder)["model"], usual.weights))
    assert not torch.equal(mine, theirs) and torch.allclose(mine, theirs, atol=0.02)


def test_the_weights_have_the_dtype_of_the_precision(tmp_path: Path, usual: Trained):
    for precision, dtype in (("bf16-mixed", torch.float32), ("64-true", torch.float64)):
        train(tiny(trainer__precision=precision), fresh(tmp_path / precision))
        assert all(value.dtype == dtype for value in checkpoint(tmp_path / precision)["model"].values())
    near_and_not_the_same(tmp_path / "bf16-mixed", usual)
    assert torch.get_default_dtype() == torch.float32


def test_a_head_in_bfloat16_is_near_and_leaves_the_layers_in_float32(tmp_path: Path, usual: Trained):
    names = set()

    def head(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        names.add((x.dtype, torch.is_autocast_enabled("cpu")))
        return linear_cross_entropy(x, weight, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.training.loss.linear_cross_entropy", head)
        train(tiny(trainer__precision="bf16-head"), tmp_path)
    assert names == {(torch.float32, True)}
    near_and_not_the_same(tmp_path, usual)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": 0.0}, r"lr \(=0\.0\) must be a positive number"),
        ({"lr": -1.0}, r"lr \(=-1\.0\)"),
        ({"optim__batch_size": 0}, r"optim\.batch_size \(=0\) must be at least 1"),
        ({"optim__eval_batch_size": 0}, r"optim\.eval_batch_size \(=0\)"),
        ({"optim__max_epochs": 0}, r"optim\.max_epochs \(=0\)"),
        ({"optim__betas": "[0.9,1.0]"}, r"optim\.betas"),
        ({"optim__weight_decay": -1.0}, r"optim\.weight_decay \(=-1\.0\)"),
        ({"optim__grad_clip": 0.0}, r"optim\.grad_clip \(=0\.0\)"),
        ({"optim__schedule": "linear"}, r"optim\.schedule \(='linear'\) must be one of cosine, constant"),
        ({"optim__schedule_every": "day"}, r"optim\.schedule_every"),
        ({"optim__warmup": 1.0}, r"optim\.warmup \(=1\.0\)"),
        ({"optim__early_stop": 99}, r"optim\.early_stop \(=99\)"),
        ({"optim__check_val_every_n_epoch": 0}, r"optim\.check_val_every_n_epoch \(=0\) must be at least 1"),
        ({"optim__check_val_every_n_epoch": 3}, r"\(=3\) must .* at most optim\.max_epochs \(=2\)"),
        ({"~optim__warmup": 0.05}, r"optim\.warmup must be given"),
        ({"trainer__precision": "16"}, r"trainer\.precision"),
        ({"trainer__step": "fast"}, r"trainer\.step \(='fast'\) must be one of auto, eager, graph, compile"),
        ({"trainer__step": "graph"}, r"trainer\.step \(=graph\) needs trainer\.accelerator=gpu"),
        ({"trainer__threads": 0}, r"trainer\.threads \(=0\)"),
        ({"trainer__checkpoint_every": 0}, r"trainer\.checkpoint_every \(=0\)"),
        ({"trainer__checkpoint_seconds": -1}, r"trainer\.checkpoint_seconds \(=-1\) must be positive"),
    ],
)
def test_bad_settings_are_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], words: str):
    cell = tiny(**changes)
    for attempt in (lambda: check(cell), lambda: train(cell, tmp_path)):
        with pytest.raises(ValueError, match=words) as error:
            attempt()
        assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
