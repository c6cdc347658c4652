"""The model: embedding -> blocks -> norm -> head.  It names no mixer: layers come from the config.

B batch, T time, D model width, V vocabulary.
"""

import hashlib
import math
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.blocks.base import Block, Stream
from zoo.blocks.decoder import Decoder
from zoo.common.checks import covers
from zoo.mixers.base import EMBEDDING, Mixer
from zoo.mixers.state import StateSize, total
from zoo.model.stacked import StackedEnds, spherical


class ModelState(NamedTuple):
    """The state of decoding: each layer's state, and the number of tokens so far (a counter, no memory)."""

    layers: tuple[Any, ...]
    offset: int


@torch.no_grad()
def redrawn(mixer: Mixer, std: float, n_layers: int) -> None:
    """Draw linear weights from N(0, std), biases as 0; with small_out, out_proj by sqrt(2 n_layers) smaller.

    The reference of the MQAR figures does so (Zoology's `_init_weights`) to all layers in its block, whatever
    the mixer's authors drew.  It goes by the name `out_proj`: Based, H3, the delta rules and others have
    another name for their last projection there, which is then as large as the rest.

    Parts that are no linear layer here stay as their mixer drew them: convolutions, and RWKV-7's low-rank
    maps, which are linear layers in the reference and redrawn there.
    """
    for name, layer in mixer.named_modules():
        if isinstance(layer, nn.Linear):
            small = mixer.small_out and name == "out_proj"
            nn.init.normal_(layer.weight, std=std / math.sqrt(2 * n_layers) if small else std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


@contextmanager
def seeded(seed: int, part: str):
    """Seed torch's CPU generator by (seed, part) inside; afterwards no generator has moved, nor any GPU's."""
    digest = hashlib.sha256(f"{seed}/{part}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        yield


class SequenceModel(nn.Module):
    """A model from token ids to hidden states; `logits` is the head.

    tie_embedding: the head reads out with the embedding's matrix (no bias either way).
    learned_positions: how many absolute positions are learned and added to the embedding; 0: none.
    init_std: standard deviation of the embedding, the positions, an untied head and a decoder's matrices.
    redraw: linear layers of mixers do not keep their own initial weights, see `redrawn`.
    decoder: answers go through a Decoder in front of the final norm.
    stacked: an input stands for two tokens (see zoo.model.stacked); the embedding is not trained.
    bf16_head: the training loss rounds the products of the head to bfloat16 (trainer.precision=bf16-head).
    """

    bf16_head: bool = False
    embedding: Tensor

    def __init__(
        self,
        blocks: list[Block],
        *,
        vocab_size: int,
        seed: int,
        stacked: bool = False,
        tie_embedding: bool = True,
        learned_positions: int = 0,
        init_std: float = 0.02,
        redraw: bool = False,
        decoder: bool = False,
    ) -> None:
        super().__init__()
        if not blocks:
            raise ValueError("n_layers (=0) must be at least 1.")
        if not init_std > 0:
            raise ValueError(f"model.init_std (={init_std}) must be positive.")
        if learned_positions < 0:
            raise ValueError(f"model.learned_positions (={learned_positions}) must be 0 (none) or positive.")
        d_model = blocks[0].d_model

        def table(name: str, rows: int) -> nn.Parameter:
            with seeded(seed, name):
                return nn.Parameter(torch.randn(rows, d_model) * init_std)

        if stacked and not tie_embedding:
            raise ValueError("model.tie_embedding (=False) must be true: embeddings are this task's answers.")
        self.stacked = None
        if stacked:
            with seeded(seed, "embedding"):
                self.register_buffer("embedding", spherical(vocab_size, d_model))
                self.stacked = StackedEnds(d_model)
        else:
            self.embedding = table("embedding", vocab_size)
        self.positions = table("positions", learned_positions) if learned_positions else None
        self.head = None if tie_embedding else table("head", vocab_size)
        self.blocks = nn.ModuleList(blocks)
        if redraw:
            for i, block in enumerate(blocks):
                with seeded(seed, f"redraw.{i}"):
                    redrawn(block.mixer, init_std, len(blocks))
        self.final_norm = blocks[-1].new_final_norm()
        with seeded(seed, "decoder"):
            self.decoder = Decoder(blocks[-1], init_std) if decoder else None

    @property
    def mixers(self) -> list[Mixer]:
        return [block.mixer for block in self.layers]

    @property
    def layers(self) -> list[Block]:
        """The blocks, from the lowest."""
        return list(self.blocks)  # pyright: ignore[reportReturnType]

    @property
    def causal(self) -> bool:
        return all(mixer.causal for mixer in self.mixers)

    @property
    def exact_decode(self) -> bool:
        return all(mixer.exact_decode for mixer in self.mixers)

    @property
    def head_weight(self) -> Float[Tensor, "V D"]:
        """The matrix that logits are read with: the embedding's rows where the head is tied."""
        if self.stacked is not None:
            return self.embedding[len(self.embedding) // 2 :]
        return self.embedding if self.head is None else self.head

    def forward(
        self, inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"] | None = None
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "B A D"]:
        """Return hidden states after the final norm; logits are left to the caller, who needs few of them.

        positions: the places whose states are wanted, equally many in every row; None: all places.
        """
        stream = self.start(inputs)
        for block in self.blocks:
            stream = block(stream)
        hidden = stream.sum()
        if positions is not None:
            hidden = picked(hidden, positions)
            hidden = hidden if self.decoder is None else self.decoder(hidden)
        return self._read(hidden)

    def extend(
        self, inputs: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T D"], ModelState]:
        """Return hidden states as `forward` does, after `state` (None: the start), and the next state."""
        return self.extend_unrounded(inputs, state)

    def extend_unrounded(
        self, inputs: Int[Tensor, "B T"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "B T D"], ModelState]:
        """Return what `extend` does, with an exact state whatever `model.state_codec` says."""
        before = state or ModelState((None,) * len(self.blocks), 0)
        stream, after = self.start(inputs, before.offset), []
        for block, layer in zip(self.layers, before.layers, strict=True):
            stream, layer = block.extend(stream, layer)
            after.append(layer)
        return self._read(stream.sum()), ModelState(tuple(after), before.offset + inputs.shape[1])

    def _read(self, hidden: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
        """Return what the head reads, from the last block's stream."""
        hidden = self.final_norm(hidden)
        return hidden if self.stacked is None else self.stacked.out(hidden)

    def logits(self, hidden: Float[Tensor, "*any D"]) -> Float[Tensor, "*any V"]:
        """Return the logits of hidden states that `forward` or `extend` gave."""
        return hidden @ self.head_weight.T

    def state_size(self, seq_len: int) -> StateSize:
        """Count the memory of one sequence after `seq_len` tokens, summed over layers."""
        return total(block.state_size(seq_len) for block in self.layers)

    def visible(self, wanted: Bool[Tensor, "*R T"]) -> Bool[Tensor, "*R T"]:
        """Return the tokens that the wanted outputs can depend on, through some path down the layers."""
        for block in reversed(self.layers):
            wanted = block.visible(wanted)
        return wanted

    def sees_all(self, seq_len: int) -> bool:
        """Tell whether the last output, which has the most to see, can depend on all inputs of some layer."""
        last = torch.arange(seq_len) == seq_len - 1
        return any(bool(mixer.visible(last).all()) for mixer in self.mixers)

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError for a length that the learned positions do not reach or a mixer cannot take."""
        if self.positions is not None:
            covers("model.learned_positions", len(self.positions), seq_len)
        for mixer in self.mixers:
            try:
                mixer.check_length(seq_len)
            except ValueError as error:
                raise ValueError(f"{type(mixer).__name__}: {error}") from None

    def start(self, inputs: Int[Tensor, "B T"], offset: int = 0) -> Stream:
        """Return the input of the first block, for tokens that follow `offset` others."""
        embedding = self._embed(inputs, offset)
        return Stream(embedding, None, {EMBEDDING: embedding})

    def _embed(self, inputs: Tensor, start: int) -> Tensor:
        """Embed tokens, with the learned positions from `start` on."""
        if self.stacked is None:
            hidden = nn.functional.embedding(inputs, self.embedding)
        else:
            hidden = self.stacked.embed(inputs, self.embedding)
        if self.positions is None:
            return hidden
        stop = start + inputs.shape[1]
        covers("model.learned_positions", len(self.positions), stop)
        return hidden + self.positions[start:stop]


def picked(hidden: Float[Tensor, "B T D"], positions: Int[Tensor, "B A"]) -> Float[Tensor, "B A D"]:
    """Return the states at these positions.  Shapes are fixed, unlike with a boolean mask."""
    start = torch.arange(hidden.shape[0], device=hidden.device)[:, None] * hidden.shape[1]
    rows = hidden.flatten(0, 1).index_select(0, (start + positions).flatten())
    return rows.unflatten(0, positions.shape)
