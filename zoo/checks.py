"""Refusals in words a person can act on: the rule, the value, in one line.  NaN passes none of them."""

from collections.abc import Iterable
from difflib import SequenceMatcher


def at_least(name: str, value: float, minimum: float) -> None:
    """Refuse `value` below `minimum`."""
    if not value >= minimum:
        raise ValueError(f"{name} (={value}) must be at least {minimum}.")


def positive(name: str, value: float) -> None:
    """Refuse a number that is not above zero."""
    if not value > 0:
        raise ValueError(f"{name} (={value}) must be positive.")


def covers(name: str, length: int, seq_len: int) -> None:
    """Refuse a `length` that sequences of `seq_len` tokens outgrow."""
    if seq_len > length:
        raise ValueError(f"{name} (={length}) must cover the sequences: raise it to {seq_len}.")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a `value` that is not among `choices`."""
    if value not in choices:
        raise ValueError(f"{name} (={value!r}) must be one of {', '.join(choices)}.")


def multiple(name: str, value: int, of_name: str, of: int) -> None:
    """Refuse `value` unless it is a positive multiple of `of`."""
    if of < 1 or value < 1 or value % of:
        raise ValueError(f"{name} (={value}) must be a positive multiple of {of_name} (={of}).")


def unknown(what: str, name: str, valid: Iterable[str]) -> str:
    """One line: "unknown key mixer.windw; did you mean mixer.window?" """
    best = nearest(name, valid) if name else None
    return f"unknown {what} {name or repr(name)}" + (f"; did you mean {best}?" if best else ".")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid dotted name most like `name`, as a whole or by its last part alone (`windw`)."""
    return max(valid, key=lambda candidate: _likeness(name, candidate), default=None)


def _likeness(name: str, candidate: str) -> tuple[float, float]:
    whole = SequenceMatcher(None, name.lower(), candidate.lower()).ratio()
    last = SequenceMatcher(None, name.lower().split(".")[-1], candidate.lower().split(".")[-1]).ratio()
    return max(whole, last), whole


def one_line(error: BaseException) -> str:
    """What the error says, or its kind where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
