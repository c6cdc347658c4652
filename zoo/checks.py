"""Refusals in words a person can act on: the rule, the value, in one line."""


def at_least(name: str, value: float, minimum: float) -> None:
    """Refuse `value` below `minimum`."""
    if value < minimum:
        raise ValueError(f"{name} (={value}) must be at least {minimum}.")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a `value` that is not among `choices`."""
    if value not in choices:
        raise ValueError(f"{name} (={value!r}) must be one of {', '.join(choices)}.")


def multiple(name: str, value: int, of_name: str, of: int) -> None:
    """Refuse `value` unless it is a positive multiple of `of`."""
    if of < 1 or value < 1 or value % of:
        raise ValueError(f"{name} (={value}) must be a positive multiple of {of_name} (={of}).")
