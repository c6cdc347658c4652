"""The SLURM launcher: the cells of a sweep as job arrays on a cluster.

Differs from hydra-submitit-launcher on purpose: a cell is done when its record says so and not when its job
has ended, what is done or queued is not submitted again, one cell's end is not another's, and one may leave.
"""

from collections.abc import Sequence

from hydra.core.utils import JobReturn

from hydra_plugins.zoo_plugins.composing import ComposingLauncher
from zoo.launch.slurm.settings import SlurmSettings


class SlurmLauncher(SlurmSettings, ComposingLauncher):
    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit what is missing, and follow it unless wait=false; SweepFailed if a cell failed."""
        from zoo.launch.slurm.submit import run_sweep

        run_sweep(self.composer(), job_overrides, self)
        return []
