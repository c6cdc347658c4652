"""Settings that a record lacks because it is older than they are, at the value that was in force then."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache
from typing import Any

from zoo.config.cell import USUAL
from zoo.config.paths import CONF

_TARGET = re.compile(r"^_target_: *(\S+)", re.MULTILINE)


def alike(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records of one folder, filled with those settings that others of the mixer there name."""
    read, named = list(records), defaultdict(set)
    for record in read:
        named[record["mixer"]] |= record["mixer_settings"].keys()
    return (filled(record, named[record["mixer"]]) for record in read)


def filled(record: dict[str, Any], only: Container[str] | None = None) -> dict[str, Any]:
    """Return the record with the settings that zoo's mixers have been given since, so that it and a record of
    today with the same value are one series.

    only: the settings to fill; None: all.
    """
    settings, since = record["mixer_settings"], USUAL.get(_targets().get(record["mixer"], ""), {})
    lacks = {key: since[key] for key in since if key not in settings and (only is None or key in only)}
    return record | {"mixer_settings": settings | lacks} if lacks else record


@cache
def _targets() -> dict[str, str]:
    """Stem of a mixer's yaml -> its class."""
    found = {path.stem: _TARGET.search(path.read_text()) for path in (CONF / "mixer").glob("*.yaml")}
    return {stem: match[1] for stem, match in found.items() if match}
