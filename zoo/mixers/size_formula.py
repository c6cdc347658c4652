"""Evaluate the formula of a state's size that a mixer's yaml states for people: `about.state`.

It is an expression in `seq_len` and the mixer's attributes, such as

    2 * qkv.num_kv_heads * qkv.head_dim * min(seq_len, window - 1)

and a law compares it with what the state really keeps.
"""

import ast
import operator
from collections.abc import Iterable, Iterator
from typing import Any

from zoo.mixers.base import Mixer

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
}
FUNCTIONS = {
    "min": min,
    "max": max,
    "below": lambda numbers, limit: sum(n < limit for n in numbers),
    "popcount": int.bit_count,  # how many digits of the binary number are 1
}


def mistakes(formula: str, mixer: Mixer, lengths: Iterable[int]) -> Iterator[str]:
    """Yield a line for each length at which the formula is not the size of the mixer's state."""
    for seq_len in lengths:
        stated, size = evaluate(formula, mixer, seq_len), mixer.state_size(seq_len).resident
        if stated != size:
            yield f"about.state gives {stated} after {seq_len} tokens, and state_size {size}"


def evaluate(formula: str, mixer: Mixer, seq_len: int) -> int:
    """Return the scalars after `seq_len` tokens.  ValueError: it has more than names and arithmetic."""

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=number):
                return number
            case ast.Name(id="seq_len"):
                return seq_len
            case ast.Name(id=name):
                return getattr(mixer, name)
            case ast.Attribute(value=part, attr=name):
                return getattr(value(part), name)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return value(body) if value(test) else value(otherwise)
            case (
                ast.BinOp(left=left, op=op, right=right)
                | ast.Compare(left=left, ops=[op], comparators=[right])
            ) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, args))
        raise ValueError(f"about.state (={formula!r}) may not hold {ast.unparse(node)!r}.")

    return value(ast.parse(formula, mode="eval").body)
