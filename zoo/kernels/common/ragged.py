"""Make shorter inputs of an op, by the names of dimensions in its function's annotations: "B H T C"."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from torch import Tensor

LENGTHS = ("T", "S", "R", "N")  # of tokens, keys, rows, answers: cut alike, to a size that no block divides
ROWS = "B"
FEWEST_ROWS = 2  # that are compared in float64; this need not be the whole batch


def few_rows(op: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the first FEWEST_ROWS of a batch.  op: the function annotated with its inputs' shapes."""
    return _cut(op, inputs, {ROWS: lambda size: min(size, FEWEST_ROWS)})


def ragged(op: Callable[..., Any], inputs: Sequence[Any]) -> list[Any] | None:
    """Return inputs with some tokens fewer; None: with one token, or with more than tensors and numbers."""
    if any(x is not None and not isinstance(x, Tensor | int | float) for x in inputs):
        return None
    cut = _cut(op, inputs, dict.fromkeys(LENGTHS, lambda size: size - min(7, size // 2)))
    pairs = zip(cut, inputs, strict=True)
    return cut if any(isinstance(x, Tensor) and x.shape != y.shape for x, y in pairs) else None


def _cut(op: Callable[..., Any], inputs: Sequence[Any], sizes: dict[str, Callable[[int], int]]) -> list[Any]:
    """Return contiguous copies cut to `sizes`; a copy requires a gradient where its input does."""
    annotations = [p.annotation for p in inspect.signature(op).parameters.values()]
    sized = [list(_sized(*pair)) for pair in zip(inputs, annotations, strict=False)]
    known = {word: size for words in sized for word, _, size in words}
    cut = []
    for x, words in zip(inputs, sized, strict=True):
        y = x
        for word, place, size in words:
            name = word.split("*")[-1]  # "n*T": n for each token
            if name in sizes and size > 1:
                one = known.get(name, size)
                y = y.narrow(place, 0, sizes[name](one) * (size // one))
        cut.append(y.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x)
    return cut


def _sized(x: Any, annotation: Any) -> Iterator[tuple[str, int, int]]:
    """Yield each dimension's word, place from the end and size; "..." and all before it are left out."""
    if not isinstance(x, Tensor):
        return
    for place, word in enumerate(reversed(_dimensions(annotation, x.ndim)), start=1):
        if word == "...":
            return
        yield word, -place, x.shape[-place]


def _dimensions(annotation: Any, count: int) -> list[str]:
    """Return the words of Float[Tensor, "B T C"], or of the one in a union with `count` of them; else []."""
    kinds = [kind for kind in (annotation, *get_args(annotation)) if hasattr(kind, "dim_str")]
    for words in ([word.lstrip("#") for word in kind.dim_str.split()] for kind in kinds):
        if len(words) == count or ("..." in words and len(words) <= count + 1):
            return words
    return []
