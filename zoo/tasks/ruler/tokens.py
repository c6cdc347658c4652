"""Define the 1024 tokens of ruler_lite: 13 signs, digits, letters and words, each kind in its own range."""

import torch
from jaxtyping import Int
from torch import Tensor

PAD, BOS, EOS, SEP, NEEDLE, FOR, IS, QUERY, ANS, VAR, EQ, AND, DOTS = range(13)
DIGITS = range(16, 26)
HEX = range(26, 42)
LETTERS = range(42, 68)
ADJECTIVES = range(68, 132)
NOUNS = range(132, 260)
PHRASE = range(260, 292)
WORDS = range(292, 1024)
VOCAB_SIZE = 1024


def row(*columns: int | Int[Tensor, "B w"], like: Int[Tensor, "B any"]) -> Int[Tensor, "B sum"]:
    """Return the columns side by side; a number becomes a column of that token."""
    return torch.cat([like.new_full((len(like), 1), c) if isinstance(c, int) else c for c in columns], 1)


def listed(parts: Int[Tensor, "B m w"], last: int) -> Int[Tensor, "B m*(w+1)"]:
    """Return m parts in one line with AND between them, then `last`."""
    ends = parts.new_full((*parts.shape[:2], 1), AND)
    ends[:, -1] = last
    return torch.cat([parts, ends], -1).flatten(1)


def written(number: Int[Tensor, "*any"], alphabet: range, width: int) -> Int[Tensor, "*any width"]:
    """Return a number as `width` tokens of the alphabet, the most significant first."""
    powers = [len(alphabet) ** i for i in reversed(range(width))]
    places = torch.tensor(powers, device=number.device)
    return number[..., None] // places % len(alphabet) + alphabet.start
