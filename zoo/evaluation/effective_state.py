"""Measure how much of its state a layer uses: the effective rank of the past's influence on later outputs.

B batch, T time, D model width.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.trained import Trained
from zoo.mixers.base import Links, Mixer, Seq

AT_ONCE = 2**17  # tokens that go through a layer together
ROUNDING = 1e-10  # rounding error in float64, relative to the largest singular value


class EffectiveState(Evaluation):
    """A table of one row for each slice, layer and cut, with means over `rows` test rows.

    A layer's outputs after a cut depend on the inputs before the cut through its state alone, so the matrix
    d(outputs after)/d(inputs before) has a rank of at most the state's size.  Its singular values say how
    much of the state is used.  resident, touched: the layer's state sizes at the cut.  rank: the number of
    singular values above rounding.  above_X: the number above X times the largest.  entropy: exp of the
    entropy of their shares, 0 where all are 0.  After arXiv 2504.19561 (tolerance and entropy), which takes
    the matrix of a mixer for fixed queries, keys and gates; this matrix also has the derivative through them,
    of the whole mixer in the trained model, on test rows.

    A row with more singular values above the least tolerance than `resident` refuses the cell: its state is
    miscounted.

    For layers that read from other layers (Linked) the linked values are constants.  Slices of rows longer
    than most_tokens are left out."""

    def __init__(
        self, *, cuts: Sequence[float], tolerances: Sequence[float], rows: int, most_tokens: int
    ) -> None:
        for name, values in (("cuts", cuts), ("tolerances", tolerances)):
            if not values or not all(0 < value < 1 for value in values):
                raise ValueError(f"evaluation.{name} (={list(values)}) must be numbers between 0 and 1.")
        at_least("evaluation.rows", rows, 1)
        at_least("evaluation.most_tokens", most_tokens, 2)
        self.cuts, self.tolerances, self.rows, self.most_tokens = cuts, tolerances, rows, most_tokens

    def table(self, trained: Trained) -> pd.DataFrame:
        if not trained.model.exact_decode:
            raise ValueError(f"{trained.record['mixer']} has no exact decoding, so no state to use.")
        answers = []
        for index, segment in enumerate(trained.task.segments("test")):
            if segment.seq_len <= self.most_tokens:
                rows = torch.arange(min(self.rows, segment.num_examples), device=trained.device)
                inputs = trained.task.sample("test", index, rows, trained.device).inputs
                answers += [named("test", segment) | row for row in self._layers(trained, inputs)]
        if not answers:
            raise ValueError(
                f"no slice has rows of {self.most_tokens} tokens or fewer (evaluation.most_tokens)."
            )
        return pd.DataFrame(answers)

    def _layers(self, trained: Trained, inputs: Tensor) -> Iterator[dict[str, Any]]:
        model, before = trained.model, []
        with trained.at_work():
            stream = model.start(inputs)
            for block in model.layers:
                before.append((block.mixer, block.norm(stream.sum()), stream.links))
                stream = block(stream)
        for layer, (mixer, x, links) in enumerate(before):
            exact = copy.deepcopy(mixer).double()
            length = x.shape[1]
            for cut in dict.fromkeys(min(max(1, round(share * length)), length - 1) for share in self.cuts):
                size = mixer.state_size(cut)
                about = {"layer": layer, "layer_class": type(mixer).__name__, "cut": cut}
                about |= {"resident": size.resident, "touched": size.touched, "rows": len(x)}
                used = list(self._used(exact, x, links, cut))
                wrong = f"{type(mixer).__name__}: extend or state_size is wrong; state_size({cut})"
                at_least(wrong, size.resident, max(row[f"above_{min(self.tolerances):g}"] for row in used))
                yield about | pd.DataFrame(used).mean().to_dict()

    def _used(self, mixer: Mixer, x: Seq, links: Links, cut: int) -> Iterator[dict[str, float]]:
        """Yield the ranks of each row of x."""
        for i in range(len(x)):
            row = slice(i, i + 1)
            sizes = influence(mixer, x[row], {name: each[row] for name, each in links.items()}, cut)
            yield self._ranks(torch.linalg.svdvals(sizes))

    def _ranks(self, sizes: Float[Tensor, " S"]) -> dict[str, float]:
        above = {"rank": ROUNDING} | {f"above_{each:g}": each for each in self.tolerances}
        ranks = {name: float((sizes > least * sizes[0]).sum()) for name, least in above.items()}
        shares = sizes / sizes.sum().clamp_min(torch.finfo(sizes.dtype).tiny)
        return ranks | {"entropy": float(torch.special.entr(shares).sum().exp() * (sizes[0] > 0))}


def influence(mixer: Mixer, x: Seq, links: Links, cut: int) -> Float[Tensor, "O I"]:
    """Return d(outputs from `cut` on)/d(inputs before `cut`) of one row, for a mixer in float64.

    O = (T - cut) D, I = cut D; each row of a batch computes the gradient of one output.
    """
    length, width = x.shape[1:]
    rows = []
    for some in torch.arange((length - cut) * width, device=x.device).split(max(1, AT_ONCE // length)):
        copies = x.double().expand(len(some), -1, -1).clone().requires_grad_()
        read = {name: each.double().expand(len(some), *each.shape[1:]) for name, each in links.items()}
        outputs = mixer.forward_linked(copies, read)[0][:, cut:].flatten(1)
        (grad,) = torch.autograd.grad(outputs.gather(1, some[:, None]).sum(), copies)
        rows.append(grad[:, :cut].flatten(1))
    return torch.cat(rows)
