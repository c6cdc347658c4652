"""One HTML file with everything in it: the page's own texts, plotly, and the data."""

import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from plotly.offline import get_plotlyjs

from analysis.bounds import in_words, violations
from analysis.report import payload
from analysis.report.details import config_of, details, packed
from analysis.report.settings import complete, divide
from analysis.report.sources import Problem, Sources, read
from zoo.results import table

SCRIPTS = (
    "texts.js", "statistics.js", "glyphs.js", "picture.js", "tables.js", "filters.js", "details.js",
    "start.js", "page.js",
)  # fmt: skip
LISTED = 20  # violations that the page names, of each kind


def report(home: Path) -> tuple[str, Sources]:
    """The page, and what was found; its problems are on the page too.

    ValueError, one line: no such folder, no record that can be read, points that nothing tells apart.
    """
    found = read(home)
    cells = table(found.records)
    settings = []
    for setting in divide(cells, lambda run_id: config_of(found, run_id)):
        whole, lacking = complete(setting)
        found.problems += [Problem(run_id, why) for run_id, why in lacking]
        settings += [] if whole.table.empty else [whole]
    about = details(found)
    data = {
        "settings": [payload.setting(setting) for setting in settings],
        "axes": payload.axes(),
        "per_cell": payload.PER_CELL,
        "csv": payload.CSV,
        "real": payload.REAL,
        "resamples": payload.bootstrap(settings),
        "alarms": _alarms(in_words(violations(cells))),
        "failures": payload.failures(found.failures),
        "problems": [vars(problem) for problem in found.problems],
        "key": _lines("key.txt"),
    }
    return _filled(found.name, data, about), found


def _filled(name: str, data: dict[str, Any], about: dict[str, Any]) -> str:
    scripts = "\n".join(_text(script) for script in SCRIPTS)
    return Template(_text("page.html")).substitute(
        title=html.escape(name),
        style=_text("page.css"),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        data=embedded(data),
        details=packed(about),
        script=scripts,
    )


def embedded(data: Any) -> str:
    """JSON that may stand in a script element, whatever names are in it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _alarms(lines: list[str]) -> list[str]:
    more = len(lines) - LISTED
    return lines[:LISTED] + ([f"And {more} more cells above what is possible."] if more > 0 else [])


def _text(name: str) -> str:
    return (files("analysis.report") / name).read_text(encoding="utf-8")


def _lines(name: str) -> list[str]:
    return [line for line in _text(name).splitlines() if line]
