"""List every mixer by family: python -m zoo.mixers

The list says what each keeps between two tokens, which knob trades memory for recall, and the paper.

    python -m zoo.mixers --markdown > docs/mixers.md           the list of the documentation
    python -m zoo.mixers --laws mamba2                         the laws of zoo/mixers/laws.py; no name: on all
    python -m zoo.mixers --laws my_mixer --config-dir my_conf  a mixer of your own
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException
from rich.markup import escape
from rich.table import Table

from zoo.common.checks import one_line, unknown
from zoo.common.foreign import all_visible, visible
from zoo.common.terminal import command, command_parser, console, fitting, slim
from zoo.config.about import about, by_family, mistakes
from zoo.config.changes import settings_of
from zoo.config.paths import yamls_of
from zoo.config.targets import target
from zoo.mixers import laws
from zoo.mixers.base import Mixer
from zoo.mixers.cases import Case, cases_of


@dataclass(frozen=True)
class Row:
    """A mixer in the list, as its yaml describes it.  knob: as words for the command line."""

    name: str
    label: str
    family: str
    keeps: str
    knob: str
    paper: str
    causal: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Print the list, or the result of the laws for some mixers.  An unknown mixer exits with one line."""
    args = _parser().parse_intermixed_args(argv)
    try:
        files = yamls_of("mixer", args.config_dir)
        for name in args.mixers:
            if name not in files:
                raise ValueError(unknown("mixer", name, files))
        chosen = {name: files[name] for name in args.mixers} or files
        listing = [row(path) for path in chosen.values()]
        cases = [case for name, path in chosen.items() for case in cases_of(name, path.parents[1])]
    except (ValueError, OmegaConfBaseException) as error:
        sys.exit(f"error: {one_line(error)}")
    if args.laws:
        return _laws(cases)
    if args.markdown:
        print(as_markdown(listing), end="")
    else:
        console().print(*as_tables(listing))
    return 0


def _laws(cases: Sequence[Case]) -> int:
    """Print how many laws each mixer keeps in each of its cases, and a line for each that it breaks."""
    failed = False
    for case in cases:
        lines = laws.broken(case)
        failed = failed or bool(lines)
        head = f"{case}: keeps {len(laws.LAWS) - len(lines)} of {len(laws.LAWS)} laws"
        print("\n".join(map(visible, [head, *(f"    {line}" for line in lines)])), flush=True)
    return int(failed)


def row(path: Path) -> Row:
    mixer = all_visible(settings_of(path))
    if wrong := mistakes(path.stem, mixer):
        raise ValueError(wrong[0])
    words = about(path.stem, mixer)
    return Row(
        name=visible(path.stem),
        label=words["label"],
        family=words["family"],
        keeps=words.get("keeps", ""),
        knob=" ".join(_word(mixer, key, values) for key, values in words["knob"].items()),
        paper=words.get("paper", ""),
        causal=target(mixer.get("_target_"), Mixer, path.stem).causal,
    )


def _word(mixer: dict[str, Any], key: str, values: list[Any]) -> str:
    """Write "d_model=16,32" for a setting that is the whole model's, else "mixer.window=8,16"."""
    shared = mixer.get(key) == f"${{{key}}}"
    return f"{'' if shared else 'mixer.'}{key}={','.join(map(str, values))}"


def as_tables(listing: Sequence[Row]) -> list[Table]:
    """Return a table for each family, for a terminal."""
    tables = []
    for title, group in by_family(listing, lambda row: row.family).items():
        table = slim(title)
        table.add_column("mixer=", no_wrap=True)
        table.add_column("keeps", overflow="fold")
        table.add_column("knob", no_wrap=True)  # so that it can be copied
        table.add_column("paper", overflow="fold")
        for row in group:
            table.add_row(*map(escape, (row.name, row.keeps, row.knob, row.paper)))
        tables.append(fitting(table, ["paper"]))
    return tables


def as_markdown(listing: Sequence[Row]) -> str:
    """Return docs/mixers.md: a table for each family."""
    others = ", ".join(f"`{row.name}`" for row in listing if not row.causal) or "none"
    text = HEAD.format(count=len(listing), others=others)
    for title, group in by_family(listing, lambda row: row.family).items():
        text += f"\n## {title}\n\n| mixer | `mixer=` | keeps | knob | paper |\n|---|---|---|---|---|\n"
        for row in group:
            paper = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", row.paper)
            fields = (row.label, f"`{row.name}`", row.keeps, f"`{row.knob}`", paper)
            text += f"| {' | '.join(fields)} |\n"
    return text


def _parser() -> ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = command_parser("zoo.mixers", summary, details)
    parser.add_argument("mixers", nargs="*", metavar="NAME", help="mixers of the list; none: all")
    parser.add_argument("--config-dir", type=Path, help="mixers of your own as well, in DIR/mixer/NAME.yaml")
    parser.add_argument("--markdown", action="store_true", help="as a document")
    parser.add_argument("--laws", action="store_true", help="run the laws of mixers on them")
    return parser


HEAD = """# Mixers

Written by `python -m zoo.mixers --markdown > docs/mixers.md` from the yamls in `conf/mixer/`: {count} mixers.
"keeps" is what one layer holds between two tokens; [state.md](state.md) has its formula and sizes.  The knob
trades memory for recall; it stands here as words for `python -m zoo.run -m mixer=NAME`.  Not causal, and
marked so in pictures: {others}.
"""


if __name__ == "__main__":
    command(main)
