"""Read a record as untrusted data: it is checked once, or refused in one line."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from zoo.common.foreign import all_visible, visible
from zoo.config.arguments import missed
from zoo.results.environment import installed
from zoo.results.record import COLUMNS, LONGEST, SCHEMA, STRICT, Count, Name, Positive, Record, Split

ASIDE = "move its folder away, and the same command makes the cell again"
_PLAIN = re.compile(r"[ -\[\]-~\n]*")  # text that needs no escape when it is shown
DEEPEST = 16  # how far settings may be nested
MOST_SHOWN = 60  # characters of a value in a message
_adapter = cache(TypeAdapter[Any])


class Distance(TypedDict):
    """The entry of schema 2 for a distance, which is now a Kind of the group "distance"."""

    split: Split
    slice: Name
    distance: Positive
    answers: Count
    right: Count


@with_config(STRICT)
class Schema2(TypedDict):
    """The field of schema 2 in place of `groups`."""

    distances: list[Distance]


def parse(text: str, where: object) -> dict[str, Any]:
    """Return the Record that `text` holds as a plain dict, with every word in it safe to be shown.

    ValueError, one line that begins with `where`: the text is no JSON or of another schema, or a field is
    missing or wrong.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not complete JSON ({visible(str(error))}): {ASIDE}.") from None
    schema = record.get("schema") if isinstance(record, dict) else None
    if type(schema) is not int or schema not in (2, SCHEMA):
        raise ValueError(_of_another_schema(schema, record, where))
    if _too_deep(record):
        raise ValueError(f"{where} is nested more than {DEEPEST} deep: {ASIDE}.")
    if not _PLAIN.fullmatch(text):
        record = all_visible(record)
    wrong = mistake(record, Schema2) if schema == 2 else None
    if schema == 2 and not wrong:
        # schema 2 grouped answers by distance only
        distances = record.pop("distances")
        groups = [{"group": "distance", "value": old.pop("distance")} | old for old in distances]
        record = record | {"schema": SCHEMA, "groups": groups}
    wrong = wrong or mistake(record, Record) or next(_contradictions(record), None)
    if wrong:
        raise ValueError(f"{where}: {wrong}; {ASIDE}.")
    return record


def mistake(value: Any, hint: Any) -> str | None:
    """Return in words the first reason why a value from JSON is not of the type `hint`; None: it is."""
    try:
        _adapter(hint).validate_python(value)
    except ValidationError as error:
        return _in_words(value, error.errors(include_url=False)[0])
    return None


def _in_words(value: Any, error: ErrorDetails) -> str:
    """Return the place of an error and what must be there; pydantic's path also names the types it tried."""
    path, missing = "", error["type"] == "missing"
    for part in error["loc"][:-1] if missing else error["loc"]:
        if isinstance(value, dict) and part in value:
            path, value = f"{path}.{part}" if path else str(part), value[part]
        elif isinstance(value, list) and isinstance(part, int):
            path, value = f"{path}[{part}]", value[part]
    if missing:
        return f"{path or 'the record'} lacks {error['loc'][-1]!r}"
    return f"{path[:LONGEST]} (={_short(error['input'])}) must be {missed(error)}"


def _of_another_schema(schema: Any, record: Any, where: object) -> str:
    """Return advice for a record of another schema: read it with the version that wrote it, or move it."""
    schema_shown = None if schema is None else _short(schema)
    message = f"{where} has schema {schema_shown}, this version reads schema 2 and {SCHEMA}"
    if type(schema) is not int:
        return f"{message}: it is no record of a cell; {ASIDE}."
    versions = record.get("versions")
    writer = versions.get("zoo-recall") if isinstance(versions, dict) else None
    named = f"zoo-recall {visible(writer[:20])}" if isinstance(writer, str) else "the version that wrote it"
    revision = record.get("git_revision")
    named += f" (revision {visible(revision[:12])})" if isinstance(revision, str) else ""
    then = f" or later (this is {installed('zoo-recall') or 'a checkout'})" if schema > SCHEMA else ""
    return f"{message}: keep it, and read it with {named}{then}."


def _contradictions(record: dict[str, Any]) -> Iterator[str]:
    """Yield the contradictions within a record whose types are right."""
    names: set[tuple[Any, ...]] = set()
    for i, entry in enumerate(record["slices"]):
        name = (entry["split"], *entry["slice"].items())
        if name in names:
            yield f"slices[{i}] is there twice"
        if not entry["slice"] or set(entry["slice"]) & COLUMNS:
            yield f"slices[{i}].slice (={_short(entry['slice'])}) must be named by settings of its own"
        names.add(name)
    if {name[0] for name in names} != {"valid", "test"}:
        yield "slices must hold the valid and the test split"
    if any(entry["right"] > entry["answers"] for entry in record["groups"]):
        yield "groups must have no more right answers than answers"


def _short(value: Any) -> str:
    try:
        text = visible(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _too_deep(value: Any, left: int = DEEPEST) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (left == 0 or any(_too_deep(item, left - 1) for item in inner))
