"""The pre-norm block (Xiong et al. 2020): x += mixer(norm(x)), then x += mlp(norm(x)) if there is one."""

from typing import Literal

import torch.nn.functional as F
from torch import nn

from zoo.blocks.base import Block
from zoo.checks import one_of
from zoo.mixers.base import Mixer, Seq


class PreNorm(Block):
    """norm: "layer" or "rms".  mlp: "none", "gelu" or "swiglu"; its width is mlp_ratio * d_model."""

    def __init__(
        self,
        mixer: Mixer,
        d_model: int,
        norm: Literal["layer", "rms"] = "layer",
        mlp: Literal["none", "gelu", "swiglu"] = "none",
        mlp_ratio: float = 4.0,
        embed_dropout: float = 0.0,
    ) -> None:
        super().__init__(mixer, d_model, norm, embed_dropout)
        one_of("block.mlp", mlp, ("none", "gelu", "swiglu"))
        width = round(mlp_ratio * d_model)
        if width < 1:
            raise ValueError(f"block.mlp_ratio (={mlp_ratio}) times d_model (={d_model}) must be at least 1.")
        self.mlp_norm = None if mlp == "none" else self.new_norm()
        self.mlp = {"none": nn.Identity, "gelu": GELU, "swiglu": SwiGLU}[mlp](d_model, width)

    def after(self, mixed: Seq, residual: Seq) -> tuple[Seq, Seq]:
        if self.mlp_norm is None:
            return mixed, residual
        residual = residual + mixed
        return self.mlp(self.mlp_norm(residual)), residual


class GELU(nn.Module):
    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, width)
        self.down_proj = nn.Linear(width, d_model)

    def forward(self, x: Seq) -> Seq:
        return self.down_proj(F.gelu(self.up_proj(x)))


class SwiGLU(nn.Module):
    """silu(gate) * up (Shazeer 2020, eq. 6), no biases; three matrices: mlp_ratio 8/3 costs as GELU's 4."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(d_model, 2 * width, bias=False)
        self.down_proj = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Seq) -> Seq:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)
