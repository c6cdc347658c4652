"""The sizes of the chunks that a sequence is cut into, in training and after."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, one_of
from zoo.kernels.span_retrieval import Chunks, drawn_chunks, fixed_chunks
from zoo.mixers.base import Seq

SAMPLING = ("fixed", "per_forward", "per_chunk")


class ChunkSizes(nn.Module):
    """sizes: one, or several to draw from in training, once a forward pass or once a chunk (`sampling`).

    The draws are a function of `seed` and the number of passes that drew before, part of the checkpoint.
    evaluation: the one size of evaluation and decoding (None: the only one in `sizes`).
    """

    def __init__(
        self, sizes: int | Sequence[int], sampling: str, evaluation: int | None, seed: int, block_size: int
    ) -> None:
        super().__init__()
        self.sizes = [sizes] if isinstance(sizes, int) else [*sizes]
        at_least("number of sizes in chunk_size", len(self.sizes), 1)
        one_of("chunk_sampling", sampling, SAMPLING)
        for size in self.sizes:
            multiple("chunk_size", size, "block_size", block_size)
        if len(self.sizes) > 1 and (sampling == "fixed" or evaluation is None):
            raise ValueError(
                f"chunk_size (={self.sizes}) has several sizes: set chunk_sampling to per_forward or "
                f"per_chunk, and eval_chunk_size (={evaluation}) to the one size for evaluation."
            )
        self.evaluation = self.sizes[0] if evaluation is None else evaluation
        multiple("eval_chunk_size", self.evaluation, "block_size", block_size)
        self.sampling, self.seed = sampling, seed
        self.passes = 0  # training passes that drew

    def forward(self, x: Seq) -> Chunks:
        """Return the chunks of the next training pass over `x`.  With one size, passes need no counting."""
        if len(self.sizes) == 1:
            return fixed_chunks(self.sizes[0], 0, x.shape[1], x.device)
        self.passes += 1
        draw = (self.sizes, self.sampling == "per_chunk", self.seed, self.passes)
        return drawn_chunks(*draw, x.shape[1], x.device)

    def get_extra_state(self) -> Tensor:
        """Return the number of passes that drew, for the checkpoint."""
        return torch.tensor(self.passes)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the number of passes from a checkpoint."""
        self.passes = int(state)
