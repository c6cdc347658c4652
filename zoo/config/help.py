"""`python -m zoo.run --help`: every group and key, with the comments that the yamls have beside them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from textwrap import wrap
from typing import Any

import yaml
from omegaconf import OmegaConf

from zoo.config.compose import ROOT, Composer
from zoo.config.paths import SWEEPS_PATH
from zoo.config.words import parse

WHOLE = ("sweep", "experiment", "adaptation")  # groups whose files set keys of any other
COLUMN, LEAST = 34, 36  # where comments begin; characters that one needs beside its key
Keys = tuple[str, ...]  # of nested mappings, outermost first


def help_text(composer: Composer, overrides: Sequence[str], width: int) -> str:
    """The template of conf/config.yaml, filled; keys as the overrides leave them, what is swept left out.

    HydraException or ValueError: an override names nothing.
    """
    fixed = [line for line in overrides if not parse(line).is_sweep_override()]
    fixed = [line for line in fixed if not parse(line).key_or_group.startswith("hydra")]
    mistakes = composer.mistakes(fixed)
    if mistakes:
        raise ValueError("\n".join(mistakes))
    cfg, choices = composer.config(fixed)
    comments = _comments(_text(composer, ROOT))
    for group, name in choices.items():
        inner = _comments(_text(composer, f"{group}/{name}"))
        top = inner.pop((), "")
        prefix = () if group in WHOLE else (group,)
        comments |= {(*prefix, *keys): comment for keys, comment in inner.items()}
        comments |= {prefix: f"{group}={name}" + (f": {top}" if top else "")} if prefix else {}
    plain: Any = OmegaConf.to_container(cfg)  # with its interpolations
    lines = [line for row in _rows(plain, comments) for line in _with_comment(*row, width)]
    template = Template(composer.hydras([]).help.template)
    return template.substitute(APP_CONFIG_GROUPS=_groups(composer, width), CONFIG="\n".join(lines))


def _groups(composer: Composer, width: int) -> str:
    names = sorted(set(composer.loader.list_groups("")) - {"hydra", "evaluation"})  # that is for zoo.evaluate
    lines = (f"{name}: {', '.join(composer.options(name))}" for name in names)
    return "\n".join("\n".join(wrap(line, width, subsequent_indent="  ")) for line in lines)


def _text(composer: Composer, name: str) -> str:
    """The yaml as it stands in its file."""
    source = composer.yamls.source(name)
    assert source is not None
    inner = name.removeprefix("sweep/") if source.full_path() == SWEEPS_PATH else name
    return (Path(source.path) / f"{inner}.yaml").read_text()


def _comments(text: str) -> dict[Keys, str]:
    """Keys -> the comment on the key's line; () -> the lines of comment at the top."""
    lines = text.splitlines()
    top = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    head = [line.lstrip("# ") for line in lines[:top] if "@package" not in line]
    node = yaml.compose(text)
    return {(): " ".join(head)} | dict(_inner(node, (), lines))


def _inner(node: yaml.Node | None, keys: Keys, lines: list[str]) -> Iterator[tuple[Keys, str]]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line
        after = value.end_mark if value.end_mark.line == line else key.end_mark
        match = re.search(r"(?:^|\s)#\s*(.*)", lines[line][after.column :])
        if match:
            yield (*keys, key.value), match[1]
        yield from _inner(value, (*keys, key.value), lines)


def _rows(node: Any, comments: dict[Keys, str], keys: Keys = ()) -> Iterator[tuple[str, str]]:
    """Line, comment; `about` is not for the command line."""
    indent = "  " * len(keys)
    for key, value in node.items():
        here = (*keys, key)
        if key == "about" and len(keys) == 1:
            continue
        rows = value if isinstance(value, list) and value and isinstance(value[0], dict) else []
        inner = isinstance(value, dict) and value
        yield f"{indent}{key}:{'' if rows or inner else f' {_flow(value)}'}", comments.get(here, "")
        if inner:
            yield from _rows(value, comments, here)
        yield from ((f"{indent}  - {_flow(row)}", "") for row in rows)


def _flow(value: Any) -> str:
    """Return the value in one line of yaml."""
    return (
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
        .removesuffix("\n...\n")
        .strip()
    )


def _with_comment(line: str, comment: str, width: int) -> list[str]:
    """The comment in a column of its own; below where the key leaves no room for it."""
    if not comment:
        return [line]
    start = max(COLUMN, len(line) + 2)
    above = width - start < LEAST
    start = COLUMN if above else start
    texts = [f"{' ' * start}# {part}" for part in wrap(comment, width - start - 2)]
    return [line, *texts] if above else [line + texts[0][len(line) :], *texts[1:]]
