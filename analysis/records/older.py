"""Fill in settings that an old record lacks, with the values that were in force when it was made."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache
from typing import Any

from zoo.config.cell import USUAL
from zoo.config.paths import CONF

_TARGET = re.compile(r"^_target_: *(\S+)", re.MULTILINE)


def alike(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the records of one folder, filled with settings that other records of the same mixer name."""
    read, named = list(records), defaultdict(set)
    for record in read:
        named[record["mixer"]] |= record["mixer_settings"].keys()
    return (filled(record, named[record["mixer"]]) for record in read)


def filled(record: dict[str, Any], only: Container[str] | None = None) -> dict[str, Any]:
    """Return the record with the settings that its mixer has gained since, so that it is of one series with a
    record of today with the same values.

    only: the settings to fill; None: all.
    """
    settings, since = record["mixer_settings"], USUAL.get(_targets().get(record["mixer"], ""), {})
    lacks = {key: since[key] for key in since if key not in settings and (only is None or key in only)}
    return record | {"mixer_settings": settings | lacks} if lacks else record


@cache
def _targets() -> dict[str, str]:
    """Return the stem of a mixer's yaml -> the mixer's class."""
    found = {path.stem: _TARGET.search(path.read_text()) for path in (CONF / "mixer").glob("*.yaml")}
    return {stem: match[1] for stem, match in found.items() if match}
