"""Settings that a record lacks because it is older than they are, at the value that was in force then."""

import re
from functools import cache
from typing import Any

from zoo.config.cell import USUAL
from zoo.config.paths import CONF

_TARGET = re.compile(r"^_target_: *(\S+)", re.MULTILINE)


def filled(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the settings that zoo's mixers have been given since, so that it and a record of
    today with the same value are one series.
    """
    since = USUAL.get(_targets().get(record["mixer"], ""), {})
    return record | {"mixer_settings": since | record["mixer_settings"]} if since else record


@cache
def _targets() -> dict[str, str]:
    """Stem of a mixer's yaml -> its class."""
    found = {path.stem: _TARGET.search(path.read_text()) for path in (CONF / "mixer").glob("*.yaml")}
    return {stem: match[1] for stem, match in found.items() if match}
