"""W&B, TensorBoard and MLflow, offline: what a run is called, what it holds, that it goes on as itself."""

from pathlib import Path

import pytest

from tests.registry import composer
from tests.training.tiny import STEPS, tiny
from zoo.config.cell import Cell
from zoo.results.outcome import Progress
from zoo.training.check import check_logger
from zoo.training.loggers import ONE_RUN
from zoo.training.train import train

WORDS = {
    "wandb": ["logger.offline=true", "logger.tags=[mine]"],
    "mlflow": ["logger.group=ours"],
    "tensorboard": [],
}
LEAST_ROWS = 4  # of the test split: two slices, accuracy and loss of each


class Stop(Exception):
    pass


def twice(choice: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A cell that was interrupted in its second epoch and has then gone on to its end."""
    pytest.importorskip(choice)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    own = composer().cell([f"logger={choice}", *WORDS[choice]])
    base = tiny()
    cell = Cell(
        base.config | {"logger": own.config["logger"]}, base.choices | {"logger": choice}, (), base.point
    )

    def stop(at: Progress) -> None:
        if at.step == STEPS - 3:
            raise Stop

    monkeypatch.setattr("zoo.training.runs.REPORT_EVERY", 0.0)
    with pytest.raises(Stop):
        train(cell, folder, stop)
    train(cell, folder)
    return cell


def test_mlflow_goes_on_as_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_wandb_goes_on_as_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
