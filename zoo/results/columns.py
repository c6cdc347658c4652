"""List the columns of tables from the schema of a record: names, order, kinds, and what each means.

docs/numbers.md holds the table of `documented`; a test compares them.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

from typing_extensions import Doc

from zoo.results.record import Kind, Record, Slice


@dataclass(frozen=True)
class Column:
    """A column.  kinds: types of its values, NoneType included.  needed: every record has it."""

    name: str
    kinds: frozenset[Any]
    means: str
    needed: bool

    @property
    def single(self) -> bool:
        """Return whether it holds one value, neither a list nor a {key: value}."""
        return self.kinds <= {int, float, bool, str, type(None)}

    @property
    def real(self) -> bool:
        """Return whether tables hold it as floats: for fractions, and for integers that may be missing."""
        return self.single and (float in self.kinds or {int, type(None)} <= self.kinds)

    @property
    def holds(self) -> type:
        """Return its type in a table: str if it is no single value, or may be of several types."""
        some = self.kinds - {type(None)}
        return float if self.real else next(iter(some)) if self.single and len(some) == 1 else str


def _columns(schema: Any) -> dict[str, Column]:
    """Return the columns of a TypedDict, in its order."""
    hints = get_type_hints(schema, include_extras=True)
    return {name: _column(name, hint) for name, hint in hints.items() if name != "schema"}


def _column(name: str, hint: Any) -> Column:
    needed = get_origin(hint) is Required
    hint = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
    means = next((part.documentation for part in get_args(hint)[1:] if isinstance(part, Doc)), "")
    return Column(name, frozenset(_kinds(hint)), means, needed)


def _kinds(hint: Any) -> list[Any]:
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _kinds(inner[0])
    if kind is None:
        return [hint]
    if all(isinstance(option, str) for option in inner):  # of a Literal
        return [str]
    return [kind] if kind in (list, dict) else [each for option in inner for each in _kinds(option)]


RECORD, SLICE, GROUP = _columns(Record), _columns(Slice), _columns(Kind)
KEYS = tuple(column.name for column in RECORD.values() if column.needed and column.single)  # of every table
REAL = tuple(column.name for column in (*RECORD.values(), *SLICE.values()) if column.real)


def documented() -> str:
    """Return the table in Markdown that documents the columns, a row for each."""
    rows = [f"| `{column.name}` | {column.means} |" for column in (*RECORD.values(), *SLICE.values())]
    return "\n".join(["| column | meaning |", "|---|---|", *rows])
