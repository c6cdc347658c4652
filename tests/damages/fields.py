"""What can be wrong inside a result.json: each field of the schema, then the file as a whole."""

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.damages.damage import ESCAPES, Damage, rewrite, victim
from zoo.results.record import Kind, Record, Slice

# value -> whether a field that holds it makes the record useless, whatever the field's type
VALUES: dict[str, tuple[Any, bool]] = {
    "nan": (float("nan"), True),
    "infinity": (float("inf"), True),
    "minus_infinity": (float("-inf"), True),
    "huge": (10**400, True),
    "list": ([[1]], True),
    "null": (None, False),
    "dict": ({"a": 1}, False),
    "empty": ("", False),
    "negative": (-1, False),
    "large": (2**53, False),
    "fraction": (0.5, False),
    "true": (True, False),
    "escapes": (ESCAPES, False),
    "surrogate": ("\ud800", False),
    "formula": ('=HYPERLINK("http://x","y")', False),
    "tex": (r"$\frac{$", False),
    "markup": ("[/red] <script>alert(1)</script>", False),
    "path": ("../../x", False),
    "long": ("x" * 100_000, False),
}
FREE = ("mixer_settings", "task_settings", "unheard_of")  # may hold numbers of any size, and lists
DEEP = json.loads("[" * 200 + "]" * 200)
NAMES = ("", "_x", "a.b", "d_model", "seq_len", "run_id", ESCAPES, "x" * 100_000, "=1+1", "$_$")


def of_fields() -> Iterator[Damage]:
    """Every field that the schema names, missing or with each of VALUES; keys of what is free as well."""
    for path, needed in _paths():
        free = (path[0] in FREE and len(path) > 1) or path == ("unheard_of",)
        name = ".".join(map(str, path))
        yield Damage(f"{name}:missing", partial(_edit, path=path, change=_drop), needed)
        for word, (value, refused) in VALUES.items():
            put = partial(_edit, path=path, change=partial(_put, value))
            yield Damage(f"{name}:{word}", put, refused and not free)
    for free in (*FREE, "knob", "kernels", "versions", "population"):
        for number, key in enumerate(NAMES):
            for word, value in {"word": ESCAPES, "list": [ESCAPES], "number": 1, "deep": DEEP}.items():
                put = partial(_inside, free, key, value)
                yield Damage(f"{free}:key{number}:{word}", partial(rewrite, change=put), word == "deep")


def _paths() -> Iterator[tuple[tuple[str | int, ...], bool]]:
    for outer, of in (((), Record), (("slices", 0), Slice), (("groups", 0), Kind)):
        for key in of.__annotations__:
            yield (*outer, key), key in of.__required_keys__
    yield ("slices", 0, "slice", "seq_len"), False
    yield ("mixer_settings", "num_heads"), False
    yield ("task_settings", "vocab_size"), False
    yield ("unheard_of",), False


def _edit(home: Path, path: tuple[str | int, ...], change: Callable[[Any, Any], None]) -> None:
    def at(record: Any) -> None:
        for key in path[:-1]:
            record = record[key]
        change(record, path[-1])

    rewrite(home, at)


def _drop(holder: Any, key: Any) -> None:
    holder.pop(key, None)


def _put(value: Any, holder: Any, key: Any) -> None:
    holder[key] = copy.deepcopy(value)


def _inside(free: str, key: str, value: Any, record: dict[str, Any]) -> None:
    record[free] = {**(record.get(free) or {}), key: value}


def of_records() -> Iterator[Damage]:
    """The file is no record, or of another schema; fields that contradict each other."""
    texts = {
        "cut_short": lambda text: text[: len(text) // 2],
        "cut_at_the_end": lambda text: text[:-3],
        "empty": lambda text: "",
        "nothing": lambda text: "null",
        "a_list": lambda text: "[]",
        "nested": lambda text: "[" * 100_000,
        "digits": lambda text: "9" * 10_000,
        "twice": lambda text: text + text,
        "swollen": lambda text: text + " " * (5 * 2**20),
        "marked": lambda text: "\ufeff" + text,
    }
    for name, change in texts.items():
        yield Damage(f"result:{name}", partial(_retext, name="result.json", change=change), True)
    for value in (1, 2, 4, 99, -1, 2.0, "two", ESCAPES, None, True, [2], 10**400):
        edit = partial(_edit, path=("schema",), change=partial(_put, value))
        yield Damage(f"schema:{str(value)[:9]!r}", edit, True)
    doubled = partial(rewrite, change=lambda record: record["slices"].append(record["slices"][0]))
    yield Damage("slices:doubled", doubled, True)
    yield Damage("slices:none", partial(rewrite, change=lambda record: record["slices"].clear()), True)
    yield Damage("slices:one_split", partial(rewrite, change=lambda record: record["slices"].pop()), True)
    yield Damage("slices:many", partial(rewrite, change=_many_slices))
    yield Damage("groups:none", partial(rewrite, change=lambda record: record["groups"].clear()))
    yield Damage("run_id:another", partial(rewrite, change=lambda record: record.update(run_id="based-x")))


def _many_slices(record: dict[str, Any]) -> None:
    for length in range(100, 160):
        for split in ("valid", "test"):
            entry = record["slices"][0] | {"split": split, "slice": {"seq_len": length, "num_kv_pairs": 2}}
            record["slices"].append(entry)


def _retext(home: Path, name: str, change: Callable[[str], str]) -> None:
    path = victim(home) / name
    path.write_text(change(path.read_text()))
