"""Read and check `evaluation=NAME evaluation.KEY=VALUE task=NAME task.KEY=VALUE` before loading a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override

from zoo.common.checks import unknown
from zoo.config import arguments
from zoo.config.bounds import out_of_bounds
from zoo.config.cell import Cell
from zoo.config.changes import EVALUATION, TASK, changed, setting, settings_of
from zoo.config.compose import Composer, composer
from zoo.config.paths import yamls_of
from zoo.config.targets import make, section, target


@dataclass(frozen=True)
class Question:
    """The evaluation that every cell gets.

    settings: conf/evaluation/NAME.yaml, changed by `evaluation.KEY=VALUE`.
    task: stem of another task; None: each cell's own.  changes: words `task.KEY=VALUE`.
    """

    name: str
    settings: dict[str, Any]
    task: str | None
    changes: tuple[Override, ...]
    config_dir: Path | None

    def task_of(self, cell: Cell) -> dict[str, Any] | None:
        """Return the settings of the task that a cell is evaluated on; None: its own task.

        ValueError, a line for each mistake: an unknown task, key or type, a number out of bounds.
        """
        from zoo.tasks.base import Task  # torch: seconds, as below

        if self.task is None and not self.changes:
            return None
        words = [f"{TASK}={self.task}", f"seed={cell.seed}"]
        base = (self._composer.cell(words) if self.task else cell).task_settings
        task = changed(TASK, base, self.changes)
        _refuse(out_of_bounds({TASK: task}) or section(TASK, task, Task))
        return task

    @cached_property
    def _composer(self) -> Composer:
        return composer(self.config_dir)


def question(words: Sequence[str], config_dir: Path | None) -> Question:
    """Read the words of the command line into a Question.

    ValueError, one line: no evaluation, an unknown name or key (with the nearest), an ill-typed value.
    """
    overrides = [setting(word) for word in words]
    groups = {override.key_or_group: override.value() for override in overrides}
    changes = {
        group: tuple(override for override in overrides if override.key_or_group.startswith(f"{group}."))
        for group in (EVALUATION, TASK)
    }
    valid = yamls_of(EVALUATION, config_dir)
    if EVALUATION not in groups:
        raise ValueError(f"evaluation=NAME must be given: one of {', '.join(valid)}.")
    name, task = str(groups[EVALUATION]), groups.get(TASK)
    if name not in valid:
        hint = "" if config_dir else "; one of your own needs --config-dir"
        raise ValueError(unknown(EVALUATION, name, valid) + f" (there are: {', '.join(valid)}{hint})")
    settings = changed(EVALUATION, settings_of(valid[name]), changes[EVALUATION])
    _check_settings(settings)
    return Question(name, settings, None if task is None else str(task), changes[TASK], config_dir)


def _check_settings(settings: dict[str, Any]) -> None:
    from zoo.evaluation.base import Evaluation

    made = target(settings.get("_target_"), Evaluation, EVALUATION)
    given = {key: value for key, value in settings.items() if key != "_target_"}
    _refuse(arguments.mistakes(EVALUATION, given, made) or out_of_bounds({EVALUATION: given}))
    make(settings, Evaluation)  # its own rules


def _refuse(wrong: Sequence[str]) -> None:
    if wrong:
        raise ValueError("\n".join(wrong))
