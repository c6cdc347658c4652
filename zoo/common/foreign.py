"""Make foreign text (records, sweeps, yamls, tracebacks) safe to show."""

import re
import unicodedata
from typing import Any

COMPUTED = ("=", "+", "-", "@")  # a spreadsheet takes a cell that begins like this for a formula
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-")


def visible(text: str) -> str:
    """Return the text with escapes in place of characters that a terminal would obey or hide: `\\x1b[2J`.

    Line ends and tabs are escaped too: foreign text is one line.  Letters of all alphabets stay as they are.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(one: str) -> str:
    if one.isprintable() or unicodedata.category(one) == "Zs":
        return one
    return one.encode("unicode_escape").decode()


def all_visible(value: Any) -> Any:
    """Return the value with `visible` applied to every word in nested dicts and lists, also to keys."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [all_visible(item) for item in value]
    if isinstance(value, dict):
        return {all_visible(key): all_visible(item) for key, item in value.items()}
    return value


def inert(value: Any) -> Any:
    """Return a CSV cell; text that a spreadsheet would compute ("=HYPERLINK(..)") gets a ' before it."""
    if not isinstance(value, str) or not value.lstrip().startswith(COMPUTED) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"
