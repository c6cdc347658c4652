"""The schema of a record, in one place: which fields it has, of which type, within which limits.

A record may come from anywhere, so it is checked when it is read (`parse`), once, against the types below;
whatever reads it afterwards finds what they say.  Fields that are not named here are kept as they are.
"""

import json
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from zoo.foreign import all_visible, visible

SCHEMA = 3  # of result.json; raise it when a key changes its meaning
ASIDE = "move its folder away, and the same command makes the cell again"
RUN_ID = re.compile(r"\w[\w.=+-]*")  # the name of a folder: no path
_PLAIN = re.compile(r"[ -\[\]-~\n]*")  # text without a word that could need an escape
DEEPEST = 16  # how far settings may be nested
LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Within:
    """Limits of a number, both ends allowed."""

    low: float
    high: float


@dataclass(frozen=True)
class Fits:
    """A word of a certain form."""

    rule: Callable[[str], object]
    words: str


EXACT = 2**53  # integers up to here are the same in JSON, in a float and in a browser
Seed = Annotated[int, Within(-(2**63), 2**63 - 1)]
Count = Annotated[int, Within(0, EXACT)]
Size = Annotated[int, Within(0, 2**20)]  # bounds are computed number by number
Positive = Annotated[int, Within(1, EXACT)]
Amount = Annotated[float, Within(0, 1e100)]
Rate = Annotated[float, Within(5e-324, 1e100)]
Share = Annotated[float, Within(0, 1)]
Name = Annotated[str, Fits(lambda word: len(word) <= LONGEST, f"a word of at most {LONGEST} characters")]
RunId = Annotated[str, Fits(RUN_ID.fullmatch, "letters, digits and . _ = + - alone")]
Word = Annotated[str, Fits(re.compile(r"\w[\w.+-]{0,39}").fullmatch, "a plain word")]
SliceOf = Annotated[
    dict[str, Size | Word], Fits(lambda word: re.fullmatch(r"\w{1,40}", word), "named by plain words")
]


class Slice(TypedDict):
    """How one split of one slice went (`outcome.Score`); None: the cell diverged before any score."""

    split: Literal["valid", "test"]
    slice: SliceOf
    coverage: Share
    accuracy: Share | None
    row_accuracy: Share | None
    exact_rows: Share | None
    loss: Amount | None
    answers: Count
    rows: Count


class Kind(TypedDict):
    """Answers of a slice to which a group of the task gives one value (`outcome.InGroup`).

    Of the group "distance" (`zoo.tasks.groups.Distance`) they are read from (value / 2, value] tokens back.
    """

    split: Literal["valid", "test"]
    slice: Name
    group: Word
    value: Count | Word
    answers: Count
    right: Count


class Distance(TypedDict):
    """In schema 2: what is now a Kind of the group "distance"."""

    split: Literal["valid", "test"]
    slice: Name
    distance: Positive
    answers: Count
    right: Count


class Schema2(TypedDict):
    """What such a record has in place of `groups`."""

    distances: list[Distance]


class TaskSettings(TypedDict, total=False):
    """Of the settings of a task, what others compute with."""

    vocab_size: Size


class Record(TypedDict, total=False):
    """result.json.  What each field means: `zoo.results.load` and `zoo.results.outcome.Outcome`."""

    schema: Required[int]
    run_id: Required[RunId]
    point: Required[Name]
    status: Required[Literal["ok", "diverged"]]
    mixer: Required[Name]
    label: Required[Name]
    family: Required[Name]
    knob: dict[str, Any] | None
    mixer_settings: Required[dict[str, Any]]
    task: Required[Name]
    task_settings: Required[TaskSettings]
    d_model: Required[Positive]
    n_layers: Required[Positive]
    seed: Required[Seed]
    lr: Required[Rate]
    accelerator: Required[Name]
    precision: Required[Name]
    causal: Required[bool]
    exact_decode: Required[bool]
    parameters: Required[Count]
    parameters_without_embedding: Count
    layers: list[str]
    state_paper: Required[Count | None]
    state_resident: Required[Count]
    state_touched: Required[Count]
    state_aux_ints: Required[Count]
    state_mixer_paper: Required[Count | None]
    state_mixer_resident: Required[Count]
    state_mixer_touched: Count
    state_mixer_aux_ints: Count
    state_seq_len: Required[Positive]
    steps: Required[Count]
    total_steps: Count
    epochs: Count
    early_stopped: bool
    diverged_step: Required[Count | None]
    diverged_lr: Amount | None
    wall_seconds: Required[Amount]
    examples_per_second: Required[Amount | None]
    decode_tokens_per_second: Required[Amount | None]
    decode_missing: str | None
    operations: Required[Amount]
    peak_memory_bytes: Required[Count]
    kernels: dict[str, str]
    step_form: str | None
    weights: str | None
    slices: Required[list[Slice]]
    groups: Required[list[Kind]]
    overrides: list[str]
    versions: dict[str, str | None]
    git_revision: str | None
    git_clean: bool | None
    platform: str
    cores: Count | None
    config_dir: str | None
    population: NotRequired[dict[str, Any]]
    source: NotRequired[dict[str, str]]


def parse(text: str, where: object) -> dict[str, Any]:
    """The Record that `text` holds, every word in it fit to be shown; a plain dict, for it is read by column.

    ValueError, one line that begins with `where`: it is no JSON, of another schema, or a field is missing or
    not what it must be.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not complete JSON ({visible(str(error))}): {ASIDE}.") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int or schema not in (2, SCHEMA):
        raise ValueError(_of_another_schema(schema, found, where))
    if _depth(found) > DEEPEST:
        raise ValueError(f"{where} is nested more than {DEEPEST} deep: {ASIDE}.")
    if not _PLAIN.fullmatch(text):
        found = all_visible(found)
    wrong = mistake(found, Schema2) if schema == 2 else None
    if schema == 2 and not wrong:
        found = _of_this_schema(found)
    wrong = wrong or mistake(found, Record) or next(_contradictions(found), None)
    if wrong:
        raise ValueError(f"{where}: {wrong}; {ASIDE}.")
    return found


def mistake(value: Any, hint: Any) -> str | None:
    """What first keeps a value of a JSON from being of a type, in words; None: it is."""
    return next(_checker(hint)(value, ""), None)


def _of_this_schema(found: dict[str, Any]) -> dict[str, Any]:
    """A record of schema 2: its answers were told apart by distance alone."""
    groups = [
        {"split": old["split"], "slice": old["slice"], "group": "distance", "value": old["distance"]}
        | {"answers": old["answers"], "right": old["right"]}
        for old in found.pop("distances")
    ]
    return found | {"schema": SCHEMA, "groups": groups}


def _of_another_schema(schema: Any, found: Any, where: object) -> str:
    """What to do: the version that wrote a newer or older record reads it; what is none is moved away."""
    found_schema = None if schema is None else _short(schema)
    said = f"{where} has schema {found_schema}, this version reads schema 2 and {SCHEMA}"
    if type(schema) is not int:
        return f"{said}: it is no record of a cell; {ASIDE}."
    versions = found.get("versions")
    writer = versions.get("zoo-recall") if isinstance(versions, dict) else None
    named = f"zoo-recall {visible(writer[:20])}" if isinstance(writer, str) else "the version that wrote it"
    revision = found.get("git_revision")
    named += f" (revision {visible(revision[:12])})" if isinstance(revision, str) else ""
    then = f" or later (this is {_version()})" if schema > SCHEMA else ""
    return f"{said}: keep it, and read it with {named}{then}."


def _version() -> str:
    try:
        return version("zoo-recall")
    except PackageNotFoundError:
        return "a checkout"


def _contradictions(record: dict[str, Any]) -> Iterator[str]:
    """What no single type says, of a record whose types are right."""
    seen: set[tuple[Any, ...]] = set()
    for i, entry in enumerate(record["slices"]):
        name = (entry["split"], *entry["slice"].items())
        if name in seen:
            yield f"slices[{i}] is there twice"
        if not entry["slice"] or set(entry["slice"]) & {*Record.__annotations__, *Slice.__annotations__}:
            yield f"slices[{i}].slice (={_short(entry['slice'])}) must be named by settings of its own"
        seen.add(name)
    if {name[0] for name in seen} != {"valid", "test"}:
        yield "slices must hold the valid and the test split"
    if any(entry["right"] > entry["answers"] for entry in record["groups"]):
        yield "groups must have no more right answers than answers"


# How a type becomes a check: value, path -> what is wrong, a line each.
Check = Callable[[Any, str], Iterator[str]]


@cache
def _checker(hint: Hashable) -> Check:
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _limited(*inner)
    if kind in (Required, NotRequired):
        return _checker(inner[0])
    if kind in (Union, types.UnionType):
        return _either([option for option in inner if option is not types.NoneType], types.NoneType in inner)
    if kind is list:
        return _each(_checker(inner[0]))
    if kind is dict:
        return _values(_checker(inner[1]))
    return _fields(hint) if hasattr(hint, "__required_keys__") else _plain(hint, inner)


def _fields(hint: Any) -> Check:
    checks = {key: _checker(of) for key, of in get_type_hints(hint, include_extras=True).items()}

    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield _must(path, value, "a {key: value} of fields")
            return
        for key, inner in checks.items():
            if key in value:
                yield from inner(value[key], f"{path}.{key}" if path else key)
            elif key in hint.__required_keys__:
                yield f"{path or 'the record'} lacks {key!r}"

    return check


def _each(inner: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield _must(path, value, "a list")
            return
        for i, item in enumerate(value):
            yield from inner(item, f"{path}[{i}]")

    return check


def _values(inner: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield _must(path, value, "a {key: value}")
            return
        for key, item in value.items():
            yield from inner(item, f"{path}.{key}")

    return check


def _either(options: list[Any], or_null: bool) -> Check:
    checks = [_checker(option) for option in options]

    def check(value: Any, path: str) -> Iterator[str]:
        if value is None and or_null:
            return
        found = [next(inner(value, path), None) for inner in checks]
        if all(found):
            yield f"{found[0]} or null" if or_null else str(found[0])

    return check


def _limited(hint: Any, limit: Within | Fits) -> Check:
    plain = _checker(hint)

    def within(value: Any, path: str) -> Iterator[str]:
        assert isinstance(limit, Within)
        if next(plain(value, path), None) or not limit.low <= value <= limit.high:  # as NaN is
            words = f"{_KINDS[hint][1]} from {limit.low:g} to {limit.high:g}"
            yield _must(path, value, words)

    def fits(value: Any, path: str) -> Iterator[str]:
        assert isinstance(limit, Fits)
        if wrong := next(plain(value, path), None):
            yield wrong
        elif not all(map(limit.rule, value if isinstance(value, dict) else [value])):
            yield _must(path, value, limit.words)

    return within if isinstance(limit, Within) else fits


_KINDS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    str: ((str,), "a word"),
}


def _plain(hint: Any, inner: tuple[Any, ...]) -> Check:
    if hint is Any:
        return lambda value, path: iter(())
    if get_origin(hint) is Literal:
        words = f"one of {', '.join(inner)}"
        return lambda value, path: iter(() if value in inner else (_must(path, value, words),))
    kinds, words = _KINDS[hint]
    return lambda value, path: iter(() if type(value) in kinds else (_must(path, value, words),))


def _must(path: str, value: Any, words: str) -> str:
    return f"{path[:LONGEST]} (={_short(value)}) must be {words}"


def _short(value: Any, most: int = 60) -> str:
    try:
        text = visible(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= most else f"{text[:most]}..."


def _depth(value: Any) -> int:
    """How far a value is nested; no further than DEEPEST + 1 is looked."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        depth += 1
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return depth
