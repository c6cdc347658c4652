"""Every mixer, by family: python -m zoo.mixers

What each keeps between two tokens, the knob that trades memory for recall, and the paper.
`python -m zoo.mixers --markdown > docs/mixers.md` writes the list of the documentation.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.markup import escape
from rich.table import Table

from zoo.checks import one_line
from zoo.config.about import about, mistakes
from zoo.config.command_line import yaml_mistake
from zoo.config.paths import CONF
from zoo.foreign import all_visible, visible
from zoo.instantiate import target
from zoo.mixers.base import Mixer
from zoo.terminal import by_family, command, console, fitting, slim


@dataclass(frozen=True)
class Row:
    """What a mixer's yaml says about it.  knob: as words for the command line."""

    name: str
    label: str
    family: str
    keeps: str
    knob: str
    paper: str
    causal: bool


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point.  Exits with one line where the folder holds no mixers."""
    args = _parser().parse_args(argv)
    try:
        found = rows(CONF) + (rows(args.config_dir) if args.config_dir else [])
    except ValueError as error:
        sys.exit(f"error: {error}")
    if args.markdown:
        print(as_markdown(found), end="")
    else:
        console().print(*as_tables(found))


def rows(folder: Path) -> list[Row]:
    """A row for each yaml in folder/mixer.  ValueError where there is none."""
    paths = sorted((folder / "mixer").glob("*.yaml"))
    if not paths:
        raise ValueError(f"--config-dir (={folder}) must hold mixer/NAME.yaml, and holds none.")
    return [_row(path) for path in paths]


def _row(path: Path) -> Row:
    mixer = _loaded(path)
    if wrong := mistakes(path.stem, mixer):
        raise ValueError(wrong[0])
    said = about(path.stem, mixer)
    return Row(
        name=visible(path.stem),
        label=said["label"],
        family=said["family"],
        keeps=said.get("keeps", ""),
        knob=" ".join(_word(mixer, key, values) for key, values in said["knob"].items()),
        paper=said.get("paper", ""),
        causal=target(mixer.get("_target_"), Mixer, path.stem).causal,
    )


def _loaded(path: Path) -> dict[str, Any]:
    try:
        mixer: Any = OmegaConf.to_container(OmegaConf.load(path))
    except yaml.YAMLError as error:
        raise ValueError(yaml_mistake(error)) from None
    except (OSError, OmegaConfBaseException) as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    if not isinstance(mixer, dict):
        raise ValueError(f"{path} must hold {{key: value}} lines.")
    return all_visible(mixer)


def _word(mixer: dict[str, Any], key: str, values: list[Any]) -> str:
    """d_model=16,32 for a setting that is the whole model's, else mixer.window=8,16."""
    shared = mixer.get(key) == f"${{{key}}}"
    return f"{'' if shared else 'mixer.'}{key}={','.join(map(str, values))}"


def as_tables(found: Sequence[Row]) -> list[Table]:
    tables = []
    for title, group in by_family(found, lambda row: row.family).items():
        table = slim(title)
        table.add_column("mixer=", no_wrap=True)
        for column in ("keeps", "knob", "paper"):
            table.add_column(column, overflow="fold")
        for row in group:
            table.add_row(*map(escape, (row.name, row.keeps, row.knob, row.paper)))
        tables.append(fitting(table, ["paper"]))
    return tables


def as_markdown(found: Sequence[Row]) -> str:
    others = ", ".join(f"`{row.name}`" for row in found if not row.causal) or "none"
    text = HEAD.format(count=len(found), others=others)
    for title, group in by_family(found, lambda row: row.family).items():
        text += f"\n## {title}\n\n| mixer | `mixer=` | keeps | knob | paper |\n|---|---|---|---|---|\n"
        for row in group:
            fields = (row.label, f"`{row.name}`", row.keeps, f"`{row.knob}`", _linked(row.paper))
            text += f"| {' | '.join(fields)} |\n"
    return text


def _linked(paper: str) -> str:
    return re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", paper)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m zoo.mixers", description="Every mixer, by family.")
    parser.add_argument("--config-dir", type=Path, help="mixers of your own as well, in DIR/mixer/NAME.yaml")
    parser.add_argument("--markdown", action="store_true", help="as a document")
    return parser


HEAD = """# Mixers

Written by `python -m zoo.mixers --markdown > docs/mixers.md` from the yamls in `conf/mixer/`: {count} mixers.
"keeps" is what one layer holds between two tokens; [state.md](state.md) has its formula and sizes.  The knob
trades memory for recall; it stands here as words for `python -m zoo.run -m mixer=NAME`.  Not causal, and
marked so in pictures: {others}.
"""


if __name__ == "__main__":
    command(main)
