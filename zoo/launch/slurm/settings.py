"""Check the launcher's settings (conf/hydra/launcher/slurm.yaml) and write them as sbatch wants them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoo.config import arguments
from zoo.config.cell import Cell

OURS = {
    **{"partition": "partition", "account": "account", "qos": "qos", "gres": "gres", "time": "timeout_min"},
    **{"mem": "mem_gb", "cpus-per-task": "cpus_per_task", "array": "n_parallel", "signal": "signal_delay_s"},
}
FIXED = ("job-name", "output", "error", "open-mode", "requeue", "no-requeue", "wait", "ntasks", "nodes")


@dataclass(kw_only=True)
class SlurmSettings:
    """The settings of the launcher, one field for each key of the yaml, which explains them."""

    partition: str | None
    account: str | int | None
    qos: str | None
    gres: str | None
    timeout_min: int
    mem_gb: float | None
    cpus_per_task: int | None
    cells_per_job: int
    n_workers: int
    n_parallel: int | None
    max_array_size: int | None
    setup_lines: list[str]
    additional_parameters: dict[str, Any] | None
    signal_delay_s: int
    max_num_timeout: int
    use_srun: bool
    wait: bool
    poll_s: float

    def check(self) -> None:
        """Raise ValueError, a line for each mistake: types, ranges, settings that contradict each other."""
        wrong = arguments.mistakes("hydra.launcher", self.recorded(), SlurmSettings)
        if wrong := wrong or self._ranges() or self._contradictions():
            raise ValueError("\n".join(wrong))

    def _ranges(self) -> list[str]:
        least = dict.fromkeys(("timeout_min", "cells_per_job", "n_workers", "signal_delay_s"), 1)
        least |= dict.fromkeys(("cpus_per_task", "n_parallel", "max_array_size"), 1) | {"max_num_timeout": 0}
        values = {name: getattr(self, name) for name in least}
        errors = [
            f"hydra.launcher.{name} (={values[name]}) must be at least {low}."
            for name, low in least.items()
            if values[name] is not None and values[name] < low
        ]
        errors += [
            f"hydra.launcher.{name} (={getattr(self, name)}) must be positive."
            for name in ("mem_gb", "poll_s")
            if getattr(self, name) is not None and getattr(self, name) <= 0
        ]
        return errors

    def _contradictions(self) -> list[str]:
        errors = []
        if not self.use_srun:
            errors.append(
                "hydra.launcher.use_srun (=False) would lose work: SLURM signals only what srun started, so "
                "a job at its time limit would neither save nor requeue; leave it true."
            )
        if self.signal_delay_s >= 60 * self.timeout_min:
            errors.append(
                f"hydra.launcher.signal_delay_s (={self.signal_delay_s}) must be shorter than the time limit "
                f"(timeout_min={self.timeout_min})."
            )
        if self.n_workers > self.cells_per_job:
            errors.append(
                f"hydra.launcher.n_workers (={self.n_workers}) must be at most cells_per_job "
                f"(={self.cells_per_job}): a job has no more cells to run at once."
            )
        for key in self.additional_parameters or {}:
            errors += _not_additional(key)
        return errors

    def check_cells(self, cells: Sequence[Cell]) -> None:
        """Raise ValueError if the cells cannot run in a job of these settings."""
        needed = self.n_workers * max((cell.trainer.threads for cell in cells), default=1)
        if self.cpus_per_task is not None and self.cpus_per_task < needed:
            raise ValueError(
                f"hydra.launcher.cpus_per_task (={self.cpus_per_task}) must be at least n_workers times "
                f"trainer.threads (={needed})."
            )
        resources = " ".join([*(self.additional_parameters or {}), str(self.gres)])
        if any(cell.trainer.accelerator == "gpu" for cell in cells) and "gpu" not in resources:
            raise ValueError(
                f"trainer.accelerator (=gpu) needs a GPU in each job, and hydra.launcher.gres (={self.gres}) "
                "asks for none: add hydra.launcher.gres=gpu:1."
            )

    def flags(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return sbatch's parameters, without the array, its name and its logs."""
        threads = max((cell.trainer.threads for cell in cells), default=1)
        parameters = {
            **{key: getattr(self, key) for key in ("partition", "account", "qos", "gres")},
            "time": self.timeout_min,
            "mem": None if self.mem_gb is None else f"{round(1024 * self.mem_gb)}M",
            "cpus-per-task": self.cpus_per_task or self.n_workers * threads,
            "ntasks": 1,
            "nodes": 1,
            "requeue": True,  # after a preemption or the loss of a node, if the site lets the job decide
        }
        return {key: value for key, value in parameters.items() if value is not None} | (
            self.additional_parameters or {}
        )

    def recorded(self) -> dict[str, Any]:
        """Return what a submission records of the settings."""
        return {name: getattr(self, name) for name in SlurmSettings.__dataclass_fields__}


def _not_additional(key: str) -> list[str]:
    name = key.replace("_", "-")
    if name in OURS:
        return [f"hydra.launcher.additional_parameters.{key}: set hydra.launcher.{OURS[name]} instead."]
    if name in FIXED:
        return [f"hydra.launcher.additional_parameters.{key} cannot be set: zoo sets it itself."]
    return []
