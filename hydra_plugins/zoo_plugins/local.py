"""The local launcher: the cells of a sweep on this machine, n_workers at once."""

from collections.abc import Sequence

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class LocalLauncher(Launcher):
    def __init__(self, n_workers: int | str) -> None:
        self.n_workers = n_workers
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        del task_function, config  # a worker runs a Cell; it needs neither
        self.hydra_context = hydra_context

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run every cell that is not done; SweepFailed at the end if one of them failed."""
        from hydra._internal.config_loader_impl import ConfigLoaderImpl

        from zoo.config import Composer  # here, because Hydra imports plugins in every program that uses it
        from zoo.sweep import run_sweep

        assert self.hydra_context is not None
        loader = self.hydra_context.config_loader
        assert isinstance(loader, ConfigLoaderImpl)
        run_sweep(Composer(loader), job_overrides, self.n_workers)
        return []
