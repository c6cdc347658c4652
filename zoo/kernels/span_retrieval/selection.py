"""The best blocks of a row of scores, as masks, and the same choice as ids.

B batch, I index sets, R rows that choose, T tokens, U blocks.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def best_blocks(
    scores: Float[Tensor, "*B U"], admissible: Bool[Tensor, "*#B U"], top_k: int
) -> Bool[Tensor, "*B U"]:
    """The `top_k` best admissible blocks of each row; all of them where they are fewer.

    Ties go to the lowest block: argmax returns the first of equals, which topk does not promise.
    """
    left = scores.masked_fill(~admissible, -torch.inf)
    for _ in range(min(top_k, scores.shape[-1])):
        left = left.scatter(-1, left.argmax(dim=-1, keepdim=True), -torch.inf)
    return admissible & (left == -torch.inf)


def chosen_blocks(
    scores: Float[Tensor, "B I R U"], starts: Int[Tensor, "R"], block_size: int, top_k: int
) -> Bool[Tensor, "B I R U"]:
    """The best blocks among those that end at or before the row's chunk start."""
    ends = block_size * torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    return best_blocks(scores, ends <= starts[:, None], top_k)


def block_ids(chosen: Bool[Tensor, "B I U"], count: int) -> Int[Tensor, "B I N"]:
    """The ids of the `count` chosen blocks, in order."""
    return chosen.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :count]


def from_ids(ids: Int[Tensor, "B I N"], num_blocks: int) -> Bool[Tensor, "B I U"]:
    """Undoes `block_ids`."""
    nothing = torch.zeros(*ids.shape[:2], num_blocks, dtype=torch.bool, device=ids.device)
    return nothing.scatter(-1, ids, True)
