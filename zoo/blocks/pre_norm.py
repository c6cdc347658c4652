"""The pre-norm block (Xiong et al. 2020): x += mixer(norm(x)), then x += mlp(norm(x)) if there is one."""

from typing import Any, Literal, get_args

import torch.nn.functional as F
from torch import nn

from zoo.blocks.base import EPS, NORMS, Block
from zoo.blocks.channel_mix import ChannelMix, ChannelMix7
from zoo.common.checks import one_of
from zoo.mixers.base import Mixer, Seq

Norm = Literal["layer", "rms"]
CHANNEL_MIXES = {"rwkv_channel_mix": ChannelMix, "rwkv7_channel_mix": ChannelMix7}


class PreNorm(Block):
    """norm: "layer" or "rms".  final_norm: the norm before the model's head (None: as `norm`).

    mlp: none, gelu, swiglu, or a channel mix of RWKV, which looks one token back and therefore keeps a state.
    mlp_ratio: the inner width of the MLP over d_model.
    layer, n_layers: the block's place, on which the initial values of the channel mixes depend.
    """

    def __init__(
        self,
        *,
        mixer: Mixer,
        d_model: int,
        norm: Norm,
        mlp: Literal["none", "gelu", "swiglu", "rwkv_channel_mix", "rwkv7_channel_mix"],
        mlp_ratio: float,
        embed_dropout: float,
        layer: int,
        n_layers: int,
        final_norm: Norm | None = None,
    ) -> None:
        super().__init__(mixer, d_model, norm, embed_dropout)
        self.final_norm_kind = norm if final_norm is None else final_norm
        one_of("block.final_norm", self.final_norm_kind, get_args(Norm))
        one_of("block.mlp", mlp, ("none", "gelu", "swiglu", *CHANNEL_MIXES))
        width = round(mlp_ratio * d_model)
        if width < 1:
            raise ValueError(f"block.mlp_ratio (={mlp_ratio}) times d_model (={d_model}) must be at least 1.")
        self.mlp_norm = None if mlp == "none" else self.new_norm()
        if mlp in CHANNEL_MIXES:
            self.mlp: nn.Module = CHANNEL_MIXES[mlp](d_model, mlp_ratio, layer, n_layers)
        else:
            self.mlp = {"none": nn.Identity, "gelu": GELU, "swiglu": SwiGLU}[mlp](d_model, width)

    def new_final_norm(self) -> nn.Module:
        """Build the norm before the head, of the kind that `final_norm` names."""
        return NORMS[self.final_norm_kind](self.d_model, eps=EPS)

    @property
    def remembering(self) -> list[Mixer]:
        """The mixer, and the MLP where it is a channel mix, which looks one token back."""
        return [self.mixer, self.mlp] if isinstance(self.mlp, Mixer) else [self.mixer]

    def after(self, mixed: Seq, residual: Seq) -> tuple[Seq, Seq]:
        """Add the mixer's output to the stream and apply the MLP to a whole sequence."""
        return self.extend_after(mixed, residual, None)[:2]

    def extend_after(self, mixed: Seq, residual: Seq, state: Any) -> tuple[Seq, Seq, Any]:
        """Add the mixer's output to the stream and apply the MLP, from its state where it keeps one."""
        if self.mlp_norm is None:
            return mixed, residual, None
        residual = residual + mixed
        x = self.mlp_norm(residual)
        if isinstance(self.mlp, Mixer):
            hidden, state = self.mlp.extend(x, state)
            return hidden, residual, state
        return self.mlp(x), residual, None


class GELU(nn.Module):
    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, width)
        self.down_proj = nn.Linear(width, d_model)

    def forward(self, x: Seq) -> Seq:
        """Return down(gelu(up(x)))."""
        return self.down_proj(F.gelu(self.up_proj(x)))


class SwiGLU(nn.Module):
    """silu(gate) * up (Shazeer 2020, eq. 6), no biases.  With 3 matrices, mlp_ratio 8/3 costs as GELU's 4."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(d_model, 2 * width, bias=False)
        self.down_proj = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Seq) -> Seq:
        """Return down(silu(gate) * up)."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)
