"""Check settings; a ValueError of one line names the rule and the value.  NaN fails numeric checks."""

import sysconfig
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from traceback import walk_tb

ALIKE = 0.5  # names must be more alike than this, or a suggestion would mislead


def at_least(name: str, value: float, minimum: float) -> None:
    """Raise ValueError if `value` is below `minimum`."""
    if not value >= minimum:
        raise ValueError(f"{name} (={value}) must be at least {minimum}.")


def positive(name: str, value: float) -> None:
    """Raise ValueError if the number is not above zero."""
    if not value > 0:
        raise ValueError(f"{name} (={value}) must be positive.")


def covers(name: str, length: int, seq_len: int) -> None:
    """Raise ValueError if sequences of `seq_len` tokens are longer than `length`."""
    if seq_len > length:
        raise ValueError(f"{name} (={length}) must cover the sequences: raise it to {seq_len}.")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError if `value` is not among `choices`."""
    if value not in choices:
        raise ValueError(f"{name} (={value!r}) must be one of {', '.join(choices)}.")


def multiple(name: str, value: int, of_name: str, of: int) -> None:
    """Raise ValueError unless `value` is a positive multiple of `of`."""
    if of < 1 or value < 1 or value % of:
        raise ValueError(f"{name} (={value}) must be a positive multiple of {of_name} (={of}).")


def unknown(what: str, name: str, valid: Iterable[str]) -> str:
    """Return "unknown key windw; did you mean window?", or if no valid name is like it, list its siblings."""
    known = list(valid)
    message, best = f"unknown {what} {name or repr(name)}", nearest(name, known) if name else None
    if best and _alike(name, best):
        return f"{message}; did you mean {best}?"
    group = name.rpartition(".")[0]
    siblings = [each for each in known if each.rpartition(".")[0] == group] if group or what == "key" else []
    return f"{message}; there are {', '.join(siblings)}." if siblings else f"{message}."


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid dotted name most like `name`, as a whole or by its last part alone (`windw`)."""
    return max(valid, key=lambda candidate: _likeness(name, candidate), default=None)


def _alike(name: str, best: str) -> bool:
    """Return whether a person may have meant `best`; a shared group before the last dot does not count."""
    group, _, last = name.rpartition(".")
    if group and best in (group, f"{group}.{best.rpartition('.')[2]}"):
        return _ratio(last, best.rpartition(".")[2]) > ALIKE
    return _likeness(name, best)[0] > ALIKE


def _likeness(name: str, candidate: str) -> tuple[float, float]:
    whole = _ratio(name, candidate)
    return max(whole, _ratio(name.split(".")[-1], candidate.split(".")[-1])), whole


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one.lower(), other.lower()).ratio()


def one_line(error: BaseException) -> str:
    """Return the error's message in one line, or its class if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


def violation(reasons: Iterator[str]) -> str | None:
    """Return the first reason, or None; an error on the way to it is a reason too."""
    try:
        return next(reasons, None)
    except Exception as error:
        return located(error)


def located(error: BaseException) -> str:
    """Return `reason` and the innermost call in code of a user, else of zoo: "(a.py:16, in A.__init__)"."""
    installed = ("<", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
    calls = [c for c in walk_tb(error.__traceback__) if not c[0].f_code.co_filename.startswith(installed)]
    users = [call for call in calls if not str(call[0].f_globals.get("__name__")).startswith("zoo.")]
    for f, line in (users or calls)[-1:]:
        return f"{reason(error)} ({Path(f.f_code.co_filename).name}:{line}, in {f.f_code.co_qualname})"
    return reason(error)


def reason(error: BaseException) -> str:
    """Return the error's class, and the first line of its message if it has one."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
