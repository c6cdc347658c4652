"""Compute expressions over the columns of a table, read by Python's own parser; nothing is executed."""

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..records.where import where

_SIX_DIGITS = 5e-6  # relative: how far a number of a CSV, with six digits, may be from the computed one

Values = list[float]


@dataclass(frozen=True)
class Value:
    """The value that the records give for a number of a page, or a bound (<=, >=) for that number."""

    value: float
    bound: str = "=="

    def fits(self, number: str) -> bool:
        """Return whether a number, as the page writes it, is this value rounded to the number's digits."""
        digits, _, power = number.replace(",", "").partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        apart = float(number.replace(",", "")) - self.value
        slack = unit / 2 + min(_SIX_DIGITS * abs(self.value), 0.01 * unit) + 1e-12
        return (self.bound == ">=" or apart <= slack) and (self.bound == "<=" or apart >= -slack)

    def __str__(self) -> str:
        return f"{self.value:.6g}" if self.bound == "==" else f"to be {self.bound} {self.value:.6g}"


def values(formulas: str, rows: pd.DataFrame) -> Iterator[Value]:
    """Yield the values of expressions with ; between them.  ValueError, one line: an expression is wrong."""
    for formula in filter(None, (part.strip() for part in formulas.split(";"))):
        node, bound = _bounded(_parsed(formula))
        if not any(isinstance(part, ast.Name) for part in ast.walk(node)):
            raise ValueError(f"{formula} computes nothing from the records")
        yield from (Value(value, bound) for value in _computed(node, rows))


def _bounded(node: ast.expr) -> tuple[ast.expr, str]:
    """Return the expression to compute, and how the page's number must compare with its value."""
    if not isinstance(node, ast.Compare):
        return node, "=="
    bound = {ast.GtE: ">=", ast.LtE: "<="}.get(type(node.ops[0]))
    if bound is None or len(node.ops) > 1 or not isinstance(node.left, ast.Name) or node.left.id != "it":
        raise ValueError(f"{ast.unparse(node)} is no bound: write it >= .. or it <= ..")
    return node.comparators[0], bound


def _parsed(formula: str) -> ast.expr:
    try:
        return ast.parse(formula, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{formula!r} is no expression") from None


_TOGETHER: dict[str, Callable[[Values], Values]] = {
    "mean": lambda values: [sum(values) / len(values)],
    "min": lambda values: [min(values)],
    "max": lambda values: [max(values)],
    "sum": lambda values: [sum(values)],
    "count": lambda values: [float(len(values))],
    "abs": lambda values: [abs(value) for value in values],
    "sorted": sorted,
}
_JOINS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def _computed(node: ast.expr, rows: pd.DataFrame) -> Values:
    """Return the values of one expression over the rows.  ValueError: a form that is not accepted."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [float(node.value)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [-value for value in _computed(node.operand, rows)]
    if isinstance(node, ast.BinOp) and type(node.op) in _JOINS:
        left, right = (_one(side, rows) for side in (node.left, node.right))
        return [_JOINS[type(node.op)](left, right)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, node.args, rows)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return [_at(_computed(node.value, rows), node.slice.value)]
    if isinstance(node, ast.Subscript):
        return _columns(node.value, where(rows, ast.unparse(node.slice)))
    return _columns(node, rows)


def _called(name: str, args: list[ast.expr], rows: pd.DataFrame) -> Values:
    if name == "round" and len(args) == 2:
        return [round(_one(args[0], rows), int(_one(args[1], rows)))]
    values = [value for arg in args for value in _computed(arg, rows)]
    if name not in _TOGETHER:
        raise ValueError(f"there is no function {name}: {', '.join(_TOGETHER)} and round")
    if not values and name != "count":
        raise ValueError(f"{name} is of no value: no row is left")
    return _TOGETHER[name](values)


def _at(values: Values, place: object) -> float:
    if not isinstance(place, int) or not 0 <= place < len(values):
        raise ValueError(f"there is no [{place}] of {len(values)} values")
    return values[place]


def _one(node: ast.expr, rows: pd.DataFrame) -> float:
    values = _computed(node, rows)
    if len(values) != 1:
        raise ValueError(f"{ast.unparse(node)} is {len(values)} values, and one is needed")
    return values[0]


def _columns(node: ast.expr, rows: pd.DataFrame) -> Values:
    """Return the values of a column, or of several side by side, row by row."""
    names = [ast.unparse(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]
    if absent := [name for name in names if name not in rows]:
        raise ValueError(f"there is no column {absent[0]!r}")
    return [value for row in rows[names].itertuples(index=False) for cell in row for value in _numbers(cell)]


def _numbers(cell: Any) -> Values:
    """Return the numbers of a field: one, or several in words ("0.25 0.5")."""
    try:
        return [float(word) for word in str(cell).split()]
    except ValueError:
        raise ValueError(f"{cell!r} is no number") from None
