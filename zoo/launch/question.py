"""`evaluation=NAME evaluation.KEY=VALUE task=NAME task.KEY=VALUE`, read and checked before any model is."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.common.checks import one_line, unknown
from zoo.common.foreign import visible
from zoo.config import arguments
from zoo.config.bounds import out_of_bounds
from zoo.config.cell import Cell
from zoo.config.compose import Composer, composer
from zoo.config.paths import CONF
from zoo.config.words import parse
from zoo.results.home import shown
from zoo.results.table import flat

EVALUATION, TASK = "evaluation", "task"


@dataclass(frozen=True)
class Question:
    """Hold the evaluation that every cell gets.

    settings: conf/evaluation/NAME.yaml, changed by `evaluation.KEY=VALUE`.
    task: stem of another task, None: each cell's own.  changes: words `task.KEY=VALUE`.
    """

    name: str
    settings: dict[str, Any]
    task: str | None
    changes: tuple[Override, ...]
    config_dir: Path | None

    def task_of(self, cell: Cell) -> dict[str, Any] | None:
        """The settings of the task that a cell is asked about; None: its own.

        ValueError, a line for each mistake: an unknown task, key or type, a number out of bounds.
        """
        from zoo.launch.preflight import section  # torch: seconds, as below

        if self.task is None and not self.changes:
            return None
        words = [f"{TASK}={self.task}", f"seed={cell.seed}"]
        base = (self._composer.cell(words) if self.task else cell).task_settings
        task = changed(TASK, base, self.changes)
        _refuse(out_of_bounds({TASK: task}) or section(TASK, task))
        return task

    @cached_property
    def _composer(self) -> Composer:
        return composer(self.config_dir)


def question(words: Sequence[str], config_dir: Path | None) -> Question:
    """ValueError, one line: no evaluation, an unknown name or key (with the nearest), an ill-typed value."""
    overrides = [setting(word) for word in words]
    groups = {override.key_or_group: override.value() for override in overrides}
    changes = {
        group: tuple(override for override in overrides if override.key_or_group.startswith(f"{group}."))
        for group in (EVALUATION, TASK)
    }
    valid = names(config_dir)
    if EVALUATION not in groups:
        raise ValueError(f"evaluation=NAME must be given: one of {', '.join(valid)}.")
    name, task = str(groups[EVALUATION]), groups.get(TASK)
    if name not in valid:
        hint = "" if config_dir else "; one of your own needs --config-dir"
        raise ValueError(unknown(EVALUATION, name, valid) + f" (there are: {', '.join(valid)}{hint})")
    settings = changed(EVALUATION, settings_of(valid[name]), changes[EVALUATION])
    _check_settings(settings)
    return Question(name, settings, None if task is None else str(task), changes[TASK], config_dir)


def names(config_dir: Path | None) -> dict[str, Path]:
    """Evaluation -> its yaml; one of your own goes before ours."""
    folders = [CONF] + ([config_dir] if config_dir else [])
    return {path.stem: path for folder in folders for path in sorted((folder / EVALUATION).glob("*.yaml"))}


def settings_of(path: Path) -> dict[str, Any]:
    """Read the settings in a yaml.  ValueError, one line: it cannot be read, or holds no settings."""
    if not path.is_file():  # a pipe would be waited for
        raise ValueError(f"{shown(path)} is no file.")
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise ValueError(f"{shown(path)} cannot be read ({visible(one_line(error))[:120]}).") from None
    if not isinstance(content, dict) or not content or not all(isinstance(key, str) for key in content):
        raise ValueError(f"{shown(path)} must hold settings, KEY: VALUE, and a _target_ among them.")
    return content


def setting(word: str) -> Override:
    """Read KEY=VALUE of one of the two groups.  ValueError or HydraException, one line: it is none."""
    override = parse(word)
    key, line = override.key_or_group, override.input_line
    if override.is_sweep_override():
        raise ValueError(f"{line} names several values: ask for one at a time.")
    if override.type != OverrideType.CHANGE or override.package is not None:
        raise ValueError(f"{line} must be KEY=VALUE.")
    if key.partition(".")[0] not in (EVALUATION, TASK):
        raise ValueError(
            f"{line} is no part of a question: a trained cell is what it is; ask with "
            f"{EVALUATION}=NAME, {EVALUATION}.KEY=VALUE, {TASK}=NAME, {TASK}.KEY=VALUE."
        )
    return override


def changed(group: str, settings: Mapping[str, Any], changes: Sequence[Override]) -> dict[str, Any]:
    """Return the settings with other values.  ValueError, one line: no such key, or one inside a list."""
    changed = copy.deepcopy(dict(settings))
    for override in changes:
        *path, last = override.key_or_group.removeprefix(f"{group}.").split(".")
        inner: Any = changed
        for step in path:
            inner = inner.get(step) if isinstance(inner, dict) else None
            if isinstance(inner, list):
                key = override.key_or_group.partition(f".{step}.")[0] + f".{step}"
                raise ValueError(f"{override.input_line} changes a part of a list: give {key}=[...] whole.")
        if not isinstance(inner, dict) or last not in inner or last.startswith("_"):
            valid = [key for key, _ in flat(group, dict(settings)) if "._" not in key]
            raise ValueError(unknown("key", override.key_or_group, valid))
        inner[last] = override.value()
    return changed


def _check_settings(settings: dict[str, Any]) -> None:
    from zoo.evaluation.base import Evaluation
    from zoo.model.instantiate import make, target

    made = target(settings.get("_target_"), Evaluation, EVALUATION)
    given = {key: value for key, value in settings.items() if key != "_target_"}
    _refuse(arguments.mistakes(EVALUATION, given, made) or out_of_bounds({EVALUATION: given}))
    make(settings, Evaluation)  # its own rules


def _refuse(wrong: Sequence[str]) -> None:
    if wrong:
        raise ValueError("\n".join(wrong))
