"""Check the settings of a yaml against the arguments of the class that they build, a line for each mistake.

Types are checked strictly, by pydantic.  A yaml holds what JSON does, so values are read as JSON: a list may
become a tuple, but neither "3" nor 3.0 an integer.  Unknown and missing keys are found here, because pydantic
does not suggest the nearest key.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from zoo.common.checks import unknown

# pydantic's error for a type that no yaml can hold; the class may accept something else for it
LENIENT = "needs_python_object"
LIST, SETTINGS = "a list", "a {key: value} of settings"
WORDS = {  # what the value must be, by the type of pydantic's error
    **{"int_type": "an integer", "float_type": "a number", "bool_type": "true or false"},
    **{"string_type": "a word", "none_required": "null", "dict_type": SETTINGS, "dataclass_type": SETTINGS},
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), LIST),
    "callable_type": "a part: {_target_: my_module.MyClass}",
    **{"finite_number": "a finite number", "string_too_long": "a word of at most {max_length} characters"},
    **{"greater_than_equal": "at least {ge}", "greater_than": "more than {gt}"},
    **{"less_than_equal": "at most {le}", "value_error": "{error}"},
}


def mistakes(
    path: str,
    given: Mapping[str, Any],
    target: Callable[..., Any],
    supplied: Sequence[str] = (),
    partial: bool = False,
) -> list[str]:
    """Return a line for each unknown, missing (unless `partial`) or ill-typed argument of `target`.

    Keys are dotted, below `path`.  supplied: arguments that the program gives.  `about` is skipped, as it is
    no argument.  A value with a `_target_` is checked by `zoo.config.targets`.
    """
    given = {key: value for key, value in given.items() if key != "about"}
    accepted, hints = parameters(target)
    wanted = [name for name in accepted if name not in supplied]
    needed = [] if partial else [n for n in wanted if accepted[n].default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in given]
    name = getattr(target, "__qualname__", str(target))
    errors = [
        unknown("key", f"{path}.{key}", [f"{path}.{n}" for n in wanted]) for key in given if key not in wanted
    ]
    errors += [f"{path}.{key} must be given: {name} has no default for it." for key in missing]
    for key, value in given.items():
        if key in wanted and key in hints and not (isinstance(value, Mapping) and "_target_" in value):
            errors += ill_typed(f"{path}.{key}", value, hints[key])
    return errors


@cache
def parameters(target: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """Return the parameters of `target` and their types; a class's `**rest` stands for its base class's."""
    own = dict(inspect.signature(target).parameters)
    hints = get_type_hints(target.__init__ if inspect.isclass(target) else target)
    rest = [name for name, parameter in own.items() if parameter.kind is inspect.Parameter.VAR_KEYWORD]
    if not rest or not inspect.isclass(target):
        return own, hints
    above, theirs = parameters(target.__mro__[1])
    return above | {name: own[name] for name in own if name not in rest}, theirs | hints


def ill_typed(path: str, value: Any, hint: Any) -> list[str]:
    """Return a line for each value, here or further inside, that is not of the type; [] if all are."""
    adapter = _adapter(hint)
    if adapter is None:
        return []
    try:
        adapter.validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        return _lines(path, value, error.errors(include_url=False), _takes_null(adapter))
    return []


@cache
def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
    except PydanticUserError:  # a type that pydantic cannot check: its class must do so itself
        return None


def _takes_null(adapter: TypeAdapter[Any]) -> bool:
    try:
        adapter.validate_json("null")
    except ValidationError:
        return False
    return True


def _lines(path: str, value: Any, errors: list[ErrorDetails], or_null: bool) -> list[str]:
    """Return one line for each place, since pydantic gives an error for each type of a union."""
    if any(error["type"] == LENIENT for error in errors):
        return []
    by_place: dict[str, list[str]] = {}
    values = {"": value}
    for error in errors:
        place = "".join(f"[{part}]" for part in error["loc"] if type(part) is int)
        values.setdefault(place, error["input"])
        by_place.setdefault(place, []).append(missed(error))
    if or_null and "" in by_place:
        by_place[""].append("null")
    deepest = {place: words for place, words in by_place.items() if place} or by_place
    return [
        f"{path}{place} (={values[place]!r}) must be {' or '.join(dict.fromkeys(words))}."
        for place, words in deepest.items()
    ]


def missed(error: ErrorDetails) -> str:
    """Return in words, from an error of pydantic's, which values are allowed there."""
    if error["type"] == "literal_error":  # "'a', 'b' or 'c'"
        choices = error["ctx"]["expected"].replace("'", "").replace(" or ", ", ")  # pyright: ignore
        return f"one of {choices}" if ", " in choices else choices
    words = WORDS.get(error["type"], f"as pydantic says: {error['msg']}")
    return words.format(**error.get("ctx", {})) if "ctx" in error else words
