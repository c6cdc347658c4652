"""--where: conditions on the columns of a table, in a small grammar of their own; nothing is executed.

    mixer == 'based' and (d_model >= 64 or lr in [0.001, 0.003])
    32 <= d_model < 128 and not mixer.gate == 'none'
    causal and mixer.block_size > mixer.top_k

A condition compares columns, numbers, quoted words, True and False with ==, !=, <, <=, >, >= or `in [..]`;
and, or, not and parentheses join several.  A column whose name has other characters than letters, digits, _
and dots stands in backticks.  An empty field fulfils no comparison but !=.
"""

import difflib
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<word>'[^']*'|\"[^\"]*\")|`(?P<quoted>[^`]*)`|(?P<name>[^\W\d][\w.]*)"
    r"|(?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,))"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_RESERVED = ("and", "or", "not", "in")
_TRUTH = {"True": True, "true": True, "False": False, "false": False}
_DEEPEST = 50  # parentheses and nots within each other
_KINDS = {bool: "True or False", float: "numbers", str: "words"}


class _Token(NamedTuple):
    kind: str  # number, word, column, sign or end
    text: str


class _Operand(NamedTuple):
    """A value for each row.  said: as it was written; constant: the same value for all."""

    values: list[object]
    said: str
    constant: bool


def where(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    """The rows for which the condition holds.  ValueError, one line: what is wrong in it, what is near."""
    reader = _Reader(table, _tokens(condition))
    holds = reader.any_of()
    reader.expect("end", "", "and, or, or the end")
    return table.loc[holds]


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            rest = text[place:].strip()
            raise ValueError(f"{rest[:12]!r} is no column, number, quoted word or comparison")
        kind, name = str(match.lastgroup), match[str(match.lastgroup)]
        if kind == "name":
            kind = "sign" if name in _RESERVED else "truth" if name in _TRUTH else "column"
        found.append(_Token("column" if kind == "quoted" else kind, name))
        place = match.end()
    return [*found, _Token("end", "")]


class _Reader:
    """Reads tokens from the left; every rule of the grammar is a method, and what holds comes back by row."""

    def __init__(self, table: pd.DataFrame, tokens: list[_Token]) -> None:
        self.table, self.tokens, self.place, self.depth = table, tokens, 0, 0

    def any_of(self) -> list[bool]:
        holds = self.all_of()
        while self.took("or"):
            holds = [a or b for a, b in zip(holds, self.all_of(), strict=True)]
        return holds

    def all_of(self) -> list[bool]:
        holds = self.one()
        while self.took("and"):
            holds = [a and b for a, b in zip(holds, self.one(), strict=True)]
        return holds

    def one(self) -> list[bool]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} parentheses and nots stand within each other")
        if self.took("not"):
            holds = [not each for each in self.one()]
        elif self.took("("):
            holds = self.any_of()
            self.expect("sign", ")", ")")
        else:
            holds = self.comparison()
        self.depth -= 1
        return holds

    def comparison(self) -> list[bool]:
        left = self.operand()
        holds: list[bool] | None = None
        while (sign := self.next.text) in _COMPARE and self.next.kind == "sign":
            self.place += 1
            right = self.operand()
            these = _compared(left, sign, right)
            holds = these if holds is None else [a and b for a, b in zip(holds, these, strict=True)]
            left = right
        if holds is not None:
            return holds
        negated = self.took("not")
        if negated or self.next == _Token("sign", "in"):
            self.expect("sign", "in", "in")
            return [each != negated for each in self.among(left)]
        if not left.constant and all(isinstance(value, bool) for value in left.values):
            return [bool(value) for value in left.values]
        raise ValueError(f"{left.said} is compared with nothing: add == and a value, or another comparison")

    def among(self, left: _Operand) -> list[bool]:
        self.expect("sign", "[", "[ after in")
        holds = _compared(left, "==", self.operand())
        while self.took(","):
            holds = [a or b for a, b in zip(holds, _compared(left, "==", self.operand()), strict=True)]
        self.expect("sign", "]", ", or ]")
        return holds

    def operand(self) -> _Operand:
        kind, text = self.next
        if kind in ("end", "sign"):
            raise ValueError(
                f"{text or 'the end'!r} stands where a column, a number or a quoted word belongs"
            )
        self.place += 1
        if kind == "column":
            return _Operand(self.column(text), text, False)
        value = float(text) if kind == "number" else _TRUTH[text] if kind == "truth" else text[1:-1]
        return _Operand([value] * len(self.table), text, True)

    def column(self, name: str) -> list[object]:
        if name not in self.table:
            names = [str(each) for each in self.table.columns]
            (near,) = difflib.get_close_matches(name, names, n=1, cutoff=0.0) or [""]
            raise ValueError(f"there is no column {name!r}: the nearest is {near!r}; a word stands in quotes")
        return [_plain(value) for value in self.table[name].tolist()]

    @property
    def next(self) -> _Token:
        return self.tokens[self.place]

    def took(self, sign: str) -> bool:
        """Whether the next token is this sign, which is then behind us."""
        found = self.next == _Token("sign", sign)
        self.place += found
        return found

    def expect(self, kind: str, text: str, wanted: str) -> None:
        if self.next != _Token(kind, text):
            raise ValueError(f"{self.next.text or 'the end'!r} stands where {wanted} belongs")
        self.place += 1


def _plain(value: object) -> object:
    """A bool, float or str; None where there is no value.  What is none of these is its words."""
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool):
        return value
    return float(value) if isinstance(value, (int, float)) else str(value)


def _compared(left: _Operand, sign: str, right: _Operand) -> list[bool]:
    """Whether it holds, row by row.  ValueError where no two values of the sides are of one kind."""
    kinds = [{type(value) for value in side.values if value is not None} for side in (left, right)]
    if all(kinds) and not kinds[0] & kinds[1]:
        said = [f"{side.said} has {_in_words(has)}" for side, has in zip((left, right), kinds, strict=True)]
        raise ValueError(f"{said[0]} and {said[1]}: compare like with like, words in quotes, numbers without")
    holds = _COMPARE[sign]
    return [
        holds(a, b) if type(a) is type(b) and a is not None else sign == "!="
        for a, b in zip(left.values, right.values, strict=True)
    ]


def _in_words(kinds: set[type]) -> str:
    return " and ".join(sorted(_KINDS[kind] for kind in kinds))
