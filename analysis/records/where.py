"""Read the conditions of --where on the columns of a table with Python's own parser; nothing is executed.

    mixer == 'based' and (d_model >= 64 or lr in [0.001, 0.003])
    32 <= d_model < 128 and not mixer.gate == 'none'
    causal and mixer.block_size > mixer.top_k

A condition compares columns, numbers, quoted words, True and False with ==, !=, <, <=, >, >= or `in [..]`;
and, or, not and parentheses join several.  Write a column in backticks if its name has other characters than
letters, digits, _ and dots.  An empty field fulfils only the comparisons != and `not in`.
"""

import ast
import difflib
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne), ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
}  # fmt: skip
_TRUTH = {"true": True, "false": False}
_LONGEST = 2_000  # characters of a condition
_DEEPEST = 50  # parentheses and nots within each other
_KINDS = {bool: "True or False", float: "numbers", str: "words"}
_EXAMPLE = "mixer == 'based' and d_model >= 64"


class _Operand(NamedTuple):
    """A value for each row.  text: as written in the condition; constant: all rows have the same value."""

    values: list[object]
    text: str
    constant: bool


def where(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """Return the rows for which the condition holds.  ValueError, one line: the condition is wrong."""
    quoted: list[str] = []

    def named(match: re.Match[str]) -> str:
        quoted.append(match[1])
        return f"_column_{len(quoted) - 1}_"

    text = re.sub(r"`([^`]*)`", named, condition.strip())
    columns = {f"_column_{i}_": name for i, name in enumerate(quoted)}
    return table.loc[_Reader(table, columns).holds(_parsed(text))]


def _parsed(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text):,} characters, at most {_LONGEST:,} are read")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(_unreadable(text)) from None


def _unreadable(text: str) -> str:
    if single := re.search(r"([\w.]+)\s*(?<![=!<>])=(?!=)\s*([\w.+-]*)", text):
        column, value = single[1], single[2]
        word = value if not value or re.fullmatch(r"[-+\d.e]+|True|False", value) else f"'{value}'"
        return f"a comparison is written with ==, and a word in quotes: {column} == {word or 'VALUE'}"
    return f"it is not a comparison: write one such as {_EXAMPLE}"


class _Reader:
    """An evaluator of the few forms of expression that a condition may have; others raise ValueError."""

    def __init__(self, table: pd.DataFrame, quoted: dict[str, str]) -> None:
        self.table, self.quoted = table, quoted

    def holds(self, node: ast.expr, depth: int = 0) -> list[bool]:
        """Return whether the condition holds, row by row."""
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} parentheses and nots stand within each other")
        if isinstance(node, ast.BoolOp):
            parts = [self.holds(part, depth + 1) for part in node.values]
            join = all if isinstance(node.op, ast.And) else any
            return [join(row) for row in zip(*parts, strict=True)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return [not each for each in self.holds(node.operand, depth + 1)]
        if isinstance(node, ast.Compare):
            # a chain such as 32 <= d_model < 128 holds if every link holds
            sides = [node.left, *node.comparators]
            links = zip(sides[:-1], node.ops, sides[1:], strict=True)
            parts = [self._comparison(left, op, right) for left, op, right in links]
            return [all(row) for row in zip(*parts, strict=True)]
        alone = self._operand(node)
        if not alone.constant and all(isinstance(value, bool) for value in alone.values):
            return [bool(value) for value in alone.values]
        raise ValueError(f"{alone.text} is compared with nothing: add == and a value, or another comparison")

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> list[bool]:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(right, ast.List) or not right.elts:
                raise ValueError("after in stands a list of values, such as d_model in [64, 128]")
            each = [_compared(self._operand(left), ast.Eq, self._operand(value)) for value in right.elts]
            return [any(row) != isinstance(op, ast.NotIn) for row in zip(*each, strict=True)]
        if type(op) not in _COMPARE:
            raise ValueError(f"it is not a comparison: write one such as {_EXAMPLE}")
        return _compared(self._operand(left), type(op), self._operand(right))

    def _operand(self, node: ast.expr) -> _Operand:
        name = _dotted(node)
        if name is not None and name not in _TRUTH:
            name = self.quoted.get(name, name)
            return _Operand(self._column(name), name, False)
        value = _TRUTH[name] if name is not None else _constant(node)
        return _Operand([value] * len(self.table), ast.unparse(node), True)

    def _column(self, name: str) -> list[object]:
        if name not in self.table:
            names = [str(each) for each in self.table.columns]
            (near,) = difflib.get_close_matches(name, names, n=1, cutoff=0.0) or [""]
            raise ValueError(f"there is no column {name!r}: the nearest is {near!r}; a word stands in quotes")
        return [_plain(value) for value in self.table[name].tolist()]


def _dotted(node: ast.expr) -> str | None:
    """Return the column that a name such as mixer.gate names; None: the node is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)) is not None:
        return f"{before}.{node.attr}"
    return None


def _constant(node: ast.expr) -> object:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign, node = (-1.0 if isinstance(node.op, ast.USub) else 1.0), node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return node.value if isinstance(node.value, bool | str) else sign * float(node.value)
    what = ast.unparse(node)[:40]
    raise ValueError(f"{what} is neither a column nor a number nor a quoted word; nothing is computed here")


def _plain(value: object) -> object:
    """Return a bool, float or str, or None if there is no value; anything else as str."""
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool):
        return value
    return float(value) if isinstance(value, (int, float)) else str(value)


def _compared(left: _Operand, op: type[ast.cmpop], right: _Operand) -> list[bool]:
    """Compare row by row.  ValueError: no value of one side is of the kind of a value of the other side."""
    kinds = [{type(value) for value in side.values if value is not None} for side in (left, right)]
    if all(kinds) and not kinds[0] & kinds[1]:
        words = [
            f"{side.text} has {' and '.join(sorted(map(_KINDS.__getitem__, has)))}"
            for side, has in zip((left, right), kinds, strict=True)
        ]
        raise ValueError(f"{words[0]} and {words[1]}: compare like with like, words in quotes, numbers bare")
    sign, holds = _COMPARE[op]
    return [
        holds(a, b) if type(a) is type(b) and a is not None else sign == "!="
        for a, b in zip(left.values, right.values, strict=True)
    ]
