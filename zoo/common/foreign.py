"""Text from elsewhere (records, sweeps, yamls, tracebacks), made safe where it is shown."""

import re
import unicodedata
from typing import Any

COMPUTED = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet takes for a formula
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-")


def visible(text: str) -> str:
    """The text with each character that a terminal would obey, or hide, as its escape: `\\x1b[2J`.

    Line ends and tabs too: what is foreign is one line.  Letters of all alphabets stay as they are.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(one: str) -> str:
    if one.isprintable() or unicodedata.category(one) == "Zs":
        return one
    return one.encode("unicode_escape").decode()


def all_visible(value: Any) -> Any:
    """The same of every word in nested dicts and lists, keys too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [all_visible(item) for item in value]
    if isinstance(value, dict):
        return {all_visible(key): all_visible(item) for key, item in value.items()}
    return value


def inert(value: Any) -> Any:
    """A cell of a CSV: what a spreadsheet would compute ("=HYPERLINK(..)") has a ' before it."""
    if not isinstance(value, str) or not value.lstrip().startswith(COMPUTED) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"
