"""Finite groups as multiplication tables: S_n and A_n from their permutations, Z_m from sums."""

import re
from functools import lru_cache
from itertools import permutations

import torch
from jaxtyping import Int
from torch import Tensor

LARGEST = 720  # elements: S6


@lru_cache
def table(name: str) -> Int[Tensor, "G G"]:
    """[a, b] is a b, element 0 the neutral one; name: "S5", "A5", "Z60", ...

    Of permutations a b is: first a, then b.  They are numbered in lexicographic order of their images.
    ValueError: there is no such group here.
    """
    match = re.fullmatch(r"([SAZ])([1-9]\d{0,2})", name)
    kind, degree = (match[1], int(match[2])) if match else ("", 0)
    if not 2 <= degree <= {"S": 6, "A": 6, "Z": LARGEST}.get(kind, 0) or name == "A2":
        raise ValueError(f"task.group (={name!r}) must be one of S2 to S6, A3 to A6 and Z2 to Z{LARGEST}.")
    if kind == "Z":
        numbers = torch.arange(degree)
        return (numbers[:, None] + numbers) % degree
    elements = [p for p in permutations(range(degree)) if kind == "S" or even(p)]
    index = {p: i for i, p in enumerate(elements)}
    return torch.tensor([[index[tuple(b[i] for i in a)] for b in elements] for a in elements])


def even(permutation: tuple[int, ...]) -> bool:
    """Say whether it has an even number of pairs in the wrong order."""
    return sum(x > y for i, x in enumerate(permutation) for y in permutation[i + 1 :]) % 2 == 0
