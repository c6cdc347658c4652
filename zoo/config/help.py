"""Write `python -m zoo.run --help`: every group, and the chosen yamls with the comments on their keys."""

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from textwrap import indent, wrap

from zoo.config.compose import Composer
from zoo.config.paths import SWEEPS_PATH
from zoo.config.words import parse
from zoo.config.yamls import ROOT

WHOLE = ("sweep", "experiment", "adaptation")  # groups whose files set keys of other groups
OURS = re.compile(r"^(defaults|hydra|about):.*\n([ \t]+.*\n|\n)*", re.MULTILINE)  # not settable by words


def help_text(composer: Composer, overrides: Sequence[str], width: int) -> str:
    """Return the template of conf/config.yaml, filled with the yamls that the overrides choose.

    HydraException or ValueError: an override names nothing.
    """
    fixed = [line for line in overrides if not parse(line).is_sweep_override()]
    fixed = [line for line in fixed if not parse(line).key_or_group.startswith("hydra")]
    mistakes = composer.mistakes(fixed)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    _, choices = composer.config(fixed)
    parts = [_text(composer, ROOT)]
    for group, name in choices.items():
        inner = _text(composer, f"{group}/{name}")
        parts.append(
            f"# {group}={name}\n" + (inner if group in WHOLE else f"{group}:\n{indent(inner, '  ')}")
        )
    template = Template(composer.hydras([]).help.template)
    return template.substitute(APP_CONFIG_GROUPS=_groups(composer, width), CONFIG="\n\n".join(parts))


def _groups(composer: Composer, width: int) -> str:
    names = sorted(set(composer.loader.list_groups("")) - {"hydra", "evaluation"})  # zoo.evaluate's
    lines = (f"{name}: {', '.join(composer.options(name))}" for name in names)
    return "\n".join("\n".join(wrap(line, width, subsequent_indent="  ")) for line in lines)


def _text(composer: Composer, name: str) -> str:
    """Read the text of a yaml, without the parts that the command line cannot set."""
    source = composer.yamls.source(name)
    assert source is not None
    inner = name.removeprefix("sweep/") if source.full_path() == SWEEPS_PATH else name
    return OURS.sub("", (Path(source.path) / f"{inner}.yaml").read_text() + "\n").strip()
