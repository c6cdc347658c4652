"""The SLURM launcher, which runs the cells of a sweep as job arrays on a cluster.

It differs from hydra-submitit-launcher on purpose: a cell is done when it has a record, not when its job has
ended; done or queued cells are not submitted again; one failed cell ends no other; and one may disconnect.
"""

from collections.abc import Sequence

from hydra.core.utils import JobReturn

from hydra_plugins.zoo_plugins.composing import ComposingLauncher
from zoo.launch.slurm.settings import SlurmSettings


class SlurmLauncher(SlurmSettings, ComposingLauncher):
    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit the missing cells, and follow them unless wait=false; SweepFailed if a cell failed."""
        from zoo.launch.slurm.submit import run_sweep

        run_sweep(self.composer(), job_overrides, self)
        return []
