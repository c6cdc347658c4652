"""A misspelt name, and the nearest valid one."""

from collections.abc import Iterable
from difflib import SequenceMatcher


def unknown(what: str, name: str, valid: Iterable[str]) -> str:
    """One line: "unknown key mixer.windw; did you mean mixer.window?" """
    best = nearest(name, valid)
    return f"unknown {what} {name}" + (f"; did you mean {best}?" if best else ".")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid dotted name most like `name`, as a whole or by its last part alone (`windw`)."""
    return max(valid, key=lambda candidate: _likeness(name, candidate), default=None)


def _likeness(name: str, candidate: str) -> tuple[float, float]:
    whole = SequenceMatcher(None, name.lower(), candidate.lower()).ratio()
    last = SequenceMatcher(None, name.lower().split(".")[-1], candidate.lower().split(".")[-1]).ratio()
    return max(whole, last), whole
