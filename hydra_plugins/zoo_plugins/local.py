"""The local launcher, which runs the cells of a sweep on this machine, n_workers at once."""

from collections.abc import Sequence

from hydra.core.utils import JobReturn

from hydra_plugins.zoo_plugins.composing import ComposingLauncher


class LocalLauncher(ComposingLauncher):
    def __init__(self, n_workers: int | str) -> None:
        self.n_workers = n_workers

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run every cell that is not done; SweepFailed at the end if one of them failed."""
        from zoo.launch.sweep import run_sweep

        run_sweep(self.composer(), job_overrides, self.n_workers)
        return []
