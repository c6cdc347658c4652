"""Read the settings of one yaml, and change them by words KEY=VALUE."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.common.checks import one_line, unknown
from zoo.common.foreign import visible
from zoo.config.settings import flat
from zoo.config.words import parse

EVALUATION, TASK = "evaluation", "task"  # the groups that zoo.evaluate takes


def settings_of(path: Path) -> dict[str, Any]:
    """Read the settings in a yaml.  ValueError, one line: it cannot be read, or holds no settings."""
    if not path.is_file():  # reading a pipe might never end
        raise ValueError(f"{visible(str(path))} is no file.")
    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(path))
    except yaml.YAMLError as error:
        raise ValueError(visible(yaml_mistake(error))) from None
    except (OSError, ValueError, OmegaConfBaseException, RecursionError) as error:
        raise ValueError(f"{visible(str(path))} cannot be read ({visible(one_line(error))[:120]}).") from None
    if not isinstance(content, dict) or not content or not all(isinstance(key, str) for key in content):
        raise ValueError(f"{visible(str(path))} must hold settings, KEY: VALUE, and a _target_ among them.")
    return content


def yaml_mistake(error: yaml.YAMLError) -> str:
    """Return in one line the file, the line number and the mistake there."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"cannot read a yaml: {one_line(error)}"
    return f"{mark.name}, line {mark.line + 1}: {getattr(error, 'problem', None) or 'no yaml'}."


def setting(word: str) -> Override:
    """Read KEY=VALUE of one of the two groups.  ValueError or HydraException, one line: no such word."""
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
    """Return the changed settings.  ValueError, one line: no such key, or a key inside a list."""
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
