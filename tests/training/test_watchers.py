"""Lightning callbacks, and the loggers W&B, TensorBoard and MLflow, offline."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from safetensors.torch import load_file

from tests.population.together import fresh
from tests.registry import composer
from tests.training.test_resuming import cut_off
from tests.training.tiny import STEPS, scores, tiny
from zoo.config.cell import Cell
from zoo.config.paths import CONF
from zoo.evaluation.trained import load
from zoo.launch.grouping import groups
from zoo.launch.preflight import Validator
from zoo.launch.run_cell import run_cell
from zoo.training.check import check_logger
from zoo.training.loggers import ONE_RUN
from zoo.training.train import train

WORDS = {
    "wandb": ["logger.offline=true", "logger.tags=[mine]"],
    "mlflow": ["logger.group=ours"],
    "tensorboard": [],
}
LEAST_ROWS = 4  # of the test split: two slices, accuracy and loss of each


def twice(choice: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Train a cell, interrupted in its second epoch and resumed to its end."""
    pytest.importorskip(choice)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    logger = composer().cell([f"logger={choice}", *WORDS[choice]]).config["logger"]
    base = tiny()
    cell = Cell(base.config | {"logger": logger}, base.choices | {"logger": choice}, (), base.point)
    cut_off(cell, folder, STEPS - 3)
    train(cell, folder)
    return cell


def test_every_logger_is_run_here():
    assert {path.stem for path in (CONF / "logger").glob("*.yaml")} == {"csv", *WORDS}


def test_mlflow_resumes_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from mlflow.tracking import MlflowClient

    cell, folder = twice("mlflow", tmp_path, monkeypatch), tmp_path
    client = MlflowClient(f"file:{folder / 'mlruns'}")
    experiment = client.get_experiment_by_name("zoo")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.run_name for run in runs] == [cell.run_id]
    tags, params = runs[0].data.tags, runs[0].data.params
    assert tags[ONE_RUN] == cell.run_id and tags["group"] == "ours" and cell.mixer in tags["tags"]
    assert params["optim/batch_size"] == "4" and params["run_id"] == cell.run_id
    assert sum(name.startswith("test/") for name in runs[0].data.metrics) >= LEAST_ROWS


def test_tensorboard_holds_every_step_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cell, folder = twice("tensorboard", tmp_path, monkeypatch), tmp_path
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    scalars: list[str] = events.Tags()["scalars"]
    assert sum(name.startswith("test/") for name in scalars) >= LEAST_ROWS
    assert events.Scalars(next(n for n in scalars if n.startswith("test/")))[-1].step == STEPS
    assert cell.run_id in (folder / "tensorboard" / "hparams.yaml").read_text()


def test_wandb_resumes_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cell, folder = twice("wandb", tmp_path, monkeypatch), tmp_path
    runs = sorted((folder / "wandb").glob("offline-run-*"))
    assert len(runs) == 2 and {run.name.split("-", 3)[3] for run in runs} == {cell.run_id}
    for run in runs:
        written = (run / f"run-{cell.run_id}.wandb").read_bytes()  # its names stand there as plain text
        assert all(word.encode() in written for word in (cell.point, cell.mixer, "mine", "batch_size"))
    assert b"test/seq_len=16,num_kv_pairs=4/accuracy" in written


def test_wandb_without_a_key_is_refused_before_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pytest.importorskip("wandb")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(ValueError, match="logger=wandb needs a W&B key: run `wandb login`"):
        check_logger(composer().cell(["logger=wandb"]))


HERE = "tests.training.test_watchers"
EARLY = "pytorch_lightning.callbacks.EarlyStopping"


class Watch(pl.Callback):
    """Records its calls, every so many steps."""

    calls: list[Any] = []  # noqa: RUF012  of the latest one built

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every (={every}) must be at least 1")
        self.every = every
        Watch.calls = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert torch.isfinite(outputs["loss"])
        if trainer.global_step % self.every == 0:
            self.calls.append(trainer.global_step)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.calls.append(sorted(trainer.callback_metrics)[:2])

    def on_test_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.calls.append("tested")


class StopAt(pl.Callback):
    """Ends the training after so many steps, within an epoch too."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: pl.Trainer, *given: Any) -> None:
        trainer.should_stop = trainer.global_step >= self.steps


def called(*words: str, **changes: Any) -> Cell:
    return tiny(**changes, trainer__callbacks=f"[{', '.join(words)}]")


WATCH = f"{{_target_: {HERE}.Watch, every: 7}}"


def test_a_callback_sees_the_training_and_changes_no_number(tmp_path: Path):
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    train(tiny(), fresh(plain))
    train(called(WATCH), fresh(watched))
    monitored = ["valid/accuracy", "valid/loss"]
    assert Watch.calls == [7, monitored, STEPS, monitored, "tested"]
    assert (plain / "metrics.csv").read_bytes() == (watched / "metrics.csv").read_bytes()


@pytest.mark.parametrize("steps", [2, STEPS - 1, STEPS // 2])
def test_a_cell_that_a_callback_stops_is_validated_once_where_it_stops(tmp_path: Path, steps: int):
    """The scores that choose a learning rate must be of the weights that are tested, also inside an epoch."""
    train(called(f"{{_target_: {HERE}.StopAt, steps: {steps}}}"), fresh(tmp_path / "cell"))
    rows = [line.split(",")[:2] for line in (tmp_path / "cell" / "metrics.csv").read_text().splitlines()]
    last = max(int(step) for step, split in rows if split == "test")
    assert last == steps and rows.count([str(steps), "valid"]) == rows.count([str(steps), "test"]) > 0


def test_weights_of_each_epoch_can_be_saved(tmp_path: Path):
    cell = called("{_target_: pytorch_lightning.callbacks.ModelCheckpoint, save_top_k: -1}")
    epochs = train(cell, tmp_path)["epochs"]
    files = sorted((tmp_path / "checkpoints").iterdir())
    first, last = (torch.load(file, weights_only=False)["state_dict"] for file in (files[0], files[-1]))
    assert len(files) == epochs > 1
    final = load_file(tmp_path / "weights.safetensors")
    assert all(torch.equal(last[f"model.{name}"], tensor) for name, tensor in final.items())
    assert not all(torch.equal(first[f"model.{name}"], tensor) for name, tensor in final.items())


def test_callbacks_change_the_run_id_and_an_empty_list_does_not():
    cell = tiny()
    before = {k: v for k, v in cell.config["trainer"].items() if k != "callbacks"}
    assert Cell(cell.config | {"trainer": before}, cell.choices).run_id == cell.run_id
    assert called(WATCH).run_id != cell.run_id != called(WATCH, WATCH).run_id


def test_a_callback_that_stops_training_early_ends_it_for_good(tmp_path: Path):
    word = f"{{_target_: {EARLY}, monitor: valid/loss, mode: max, patience: 1}}"
    cell = called(word, optim__max_epochs=5)
    outcome = train(cell, tmp_path)
    assert outcome["early_stopped"] and outcome["epochs"] < 5 and scores(outcome, "test")
    assert train(cell, tmp_path)["steps"] == outcome["steps"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("{every: 1}", "trainer.callbacks[0]._target_ (=None) must name a Callback"),
        ("{_target_: os.system}", "trainer.callbacks[0]._target_ (=os.system) must name a Callback"),
        (
            "{_target_: no_such.Thing}",
            "trainer.callbacks[0]._target_ (=no_such.Thing) cannot be imported: No",
        ),
        ("{_target_: zoo.tasks.mqar.MQAR}", "(=zoo.tasks.mqar.MQAR) is no Callback"),
        (f"{{_target_: {HERE}.Watch, evry: 2}}", "did you mean trainer.callbacks[0].every"),
        (f"{{_target_: {HERE}.Watch, every: x}}", "trainer.callbacks[0].every (='x') must be an integer"),
        (f"{{_target_: {HERE}.Watch, every: 0}}", "every (=0) must be at least 1"),
        ("{_target_: pytorch_lightning.callbacks.RichProgressBar}", "zoo has its own display"),
        ("{_target_: pytorch_lightning.callbacks.LearningRateMonitor}", "it needs a logger of Lightning's"),
        ("3", "trainer.callbacks[0] (=3) must be a {key: value} of settings"),
    ],
)
def test_a_wrong_callback_is_refused_in_one_line_before_any_work(word: str, message: str):
    (line,) = Validator().problems(called(word))
    assert message in line and "\n" not in line


def test_cells_with_callbacks_train_alone():
    cells = [called(WATCH, lr=lr, population="auto") for lr in (1e-3, 2e-3)]
    assert [len(group.cells) for group in groups(cells, 1)] == [1, 1]
    (line,) = Validator().problems(called(WATCH, population=4))
    assert "population (=4) has more: use population=1" in line


def test_callbacks_need_a_validation_after_each_epoch():
    (line,) = Validator().problems(called(WATCH, optim__check_val_every_n_epoch=2))
    assert "optim.check_val_every_n_epoch (=2) leaves some out: make it 1" in line


def test_loading_a_record_builds_no_callback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cell = called(WATCH, results=str(tmp_path), optim__max_epochs=1)
    run_cell(cell, lambda at: None)
    monkeypatch.setattr(Watch, "__init__", lambda self, every: pytest.fail("it was built"))
    assert load(cell.folder).config["trainer"]["callbacks"]
