"""Make one HTML file with everything in it: the page's own scripts and styles, plotly, and the data."""

import html
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from ..records.configs import table
from ..records.readable import listed as names_listed
from ..records.sources import Problem, Sources, read
from ..statistics.bounds import in_words, violations
from . import payload
from .details import details, packed
from .evaluations import collected, listed
from .settings import complete, divide

SCRIPTS = (
    "texts.js", "theme.js", "statistics.js", "glyphs.js", "keys.js", "encoding.js", "marks.js", "limits.js",
    "picture.js", "tables.js", "filters.js", "selection.js", "paired.js", "differences.js", "packed.js",
    "comparison.js", "curves.js", "config_diff.js", "record.js", "panels.js", "evaluations.js",
    "answers.js", "facets.js", "parallel.js", "exports.js", "address.js", "start.js", "page.js",
)  # fmt: skip
LIVE = ("live.js",)
LISTED = 20  # violations that the page names, of each kind


@dataclass(frozen=True)
class Parts:
    """What fills a page.  data: what the page needs at once; details, evaluations: packed, for later."""

    title: str
    data: dict[str, Any]
    details: str
    evaluations: str
    sources: Sources


def report(homes: Sequence[Path], made: str = "") -> tuple[str, Sources]:
    """Return the page and its sources, whose problems are on the page too.  Errors as `parts`."""
    found = parts(homes, made)
    return filled(found), found.sources


def parts(homes: Sequence[Path], made: str = "") -> Parts:
    """Read folders and archives for a page.

    homes: results folders, archives, folders of them.  made: when the page is made, in words.
    ValueError, one line: no such folder, no record that can be read, points that nothing tells apart.
    """
    sources = read(homes)
    cells, unread = table(sources.records, sources.folders)
    sources.problems += [Problem(run_id, why) for run_id, why in unread.items()]
    settings = []
    for setting in divide(cells):
        whole, lacking = complete(setting)
        sources.problems += [Problem(run_id, why) for run_id, why in lacking]
        settings += [] if whole.table.empty else [whole]
    if sources.homes_named == sources.names[:1]:  # what lies in the one folder itself is seen first
        own = {run_id for run_id, place in sources.origin.items() if place == 0}
        settings.sort(key=lambda setting: own.isdisjoint(setting.table["run_id"]))
    about, questions = details(sources), collected(sources)
    data = {
        "made": _made(made, sources),
        "settings": [payload.setting(setting, sources) for setting in settings],
        "axes": payload.axes(),
        "per_cell": payload.PER_CELL,
        "csv": payload.CSV,
        "real": payload.REAL,
        "resamples": payload.bootstrap(settings),
        "alarms": _alarms(in_words(violations(cells))),
        "evaluations": listed(questions),
        "failures": payload.failures(sources.failures),
        "problems": [vars(problem) for problem in sources.problems],
        "key": [line for line in _text("key.txt").splitlines() if line],
    }
    title = names_listed(sources.homes_named, 3, ", ")
    return Parts(title, data, packed(about), packed(questions), sources)


def _made(when: str, sources: Sources) -> dict[str, Any]:
    """Return when and from where the page was made, and the code's revisions, the most frequent first."""
    revisions = Counter((record.get("git_revision"), record.get("git_clean")) for record in sources.records)
    return {
        "when": when,
        "names": sources.names,
        "twice": sources.twice,
        "revisions": [[*about, cells] for about, cells in revisions.most_common()],
    }


def filled(what: Parts, live: bool = False) -> str:
    """Return the page as one text.  live: it may ask its own server whether something has changed."""
    return Template(_text("page.html")).substitute(
        title=html.escape(what.title),
        connect="; connect-src 'self'" if live else "",
        style=_text("page.css"),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        data=embedded(what.data),
        details=what.details,
        evaluations=what.evaluations,
        script="\n".join(_text(script) for script in (*SCRIPTS, *(LIVE if live else ()))),
    )


def embedded(data: Any) -> str:
    """Return JSON that is safe in a script element, whatever names are in it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _alarms(lines: list[str]) -> list[str]:
    more = len(lines) - LISTED
    return lines[:LISTED] + ([f"And {more} more cells above what is possible."] if more > 0 else [])


def _text(name: str) -> str:
    return (files(__name__.rpartition(".")[0]) / name).read_text(encoding="utf-8")
