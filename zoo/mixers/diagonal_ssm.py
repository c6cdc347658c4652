"""S4D, a part of mixers, runs a diagonal state space per channel as a convolution and as a recurrence.

Gu et al., "On the Parameterization and Initialization of Diagonal State Space Models" (arXiv 2206.11893):
S4D-Lin initial values.  x' = A x + u, y = 2 Re(C x) + D u, N/2 complex modes stand for N with their
conjugates.  (B is fixed at one, since only its product with C matters.)

B batch, T time, H state spaces, R inputs to each, N state dimension: N/2 real parts, then imaginary.
H is the last axis of the inputs, since elementwise work on a CPU is fastest with the longest axis contiguous.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import multiple, one_of
from zoo.kernels.fft_conv import fft_conv
from zoo.mixers.undecayed import undecayed

DT_MIN, DT_MAX = 1e-3, 1e-1


class DiagonalSSM(nn.Module):
    """Run a state space per channel: `forward` convolves from state 0, `read` and `advance` use a state.

    discretization: bilinear or zoh (the input is constant between two steps).
    Everything is computed in float32 at least.
    """

    def __init__(self, channels: int, d_state: int, discretization: str = "bilinear") -> None:
        super().__init__()
        multiple("d_state", d_state, "2, a complex mode and its conjugate", 2)
        one_of("discretization", discretization, ("bilinear", "zoh"))
        self.bilinear = discretization == "bilinear"
        modes = d_state // 2
        low, high = math.log(DT_MIN), math.log(DT_MAX)
        self.log_dt = nn.Parameter(torch.empty(channels).uniform_(low, high))
        self.A_log_real = nn.Parameter(torch.full((channels, modes), math.log(0.5)))
        self.A_imag = nn.Parameter((math.pi * torch.arange(modes)).repeat(channels, 1))
        self.C = nn.Parameter(torch.randn(channels, modes, 2) * math.sqrt(0.5))
        self.D = nn.Parameter(torch.randn(channels))
        undecayed(self.log_dt, self.A_log_real, self.A_imag, self.D)

    def forward(self, u: Float[Tensor, "B T R H"]) -> Float[Tensor, "B T R H"]:
        """Convolve a whole sequence with the impulse response, as from a zero state."""
        with torch.autocast(u.device.type, enabled=False):
            k = self.kernel(u.shape[1]).repeat(u.shape[2], 1)
            return fft_conv(_precise(u).flatten(2), k).unflatten(2, u.shape[2:])

    def kernel(self, length: int) -> Float[Tensor, "H T"]:
        """Return the response to an impulse, D included."""
        log_decay, drive = self._discrete()
        age = torch.arange(length, device=log_decay.device)
        out = self._modes(2 * torch.view_as_complex(self.C) * drive, log_decay, age)
        k = out.real.sum(-1)
        return torch.cat([k[:, :1] + self.D[:, None], k[:, 1:]], dim=1)

    def read(self, state: Float[Tensor, "B R H N"], length: int) -> Float[Tensor, "B T R H"]:
        """Return the part of the next `length` outputs that comes from `state`."""
        log_decay, _ = self._discrete()
        age = 1 + torch.arange(length, device=log_decay.device)
        out = self._modes(2 * torch.view_as_complex(self.C), log_decay, age)
        with torch.autocast(state.device.type, enabled=False):
            return torch.einsum("brhn,htn->btrh", state, torch.cat([out.real, -out.imag], dim=-1))

    def advance(
        self, u: Float[Tensor, "B T R H"], state: Float[Tensor, "B R H N"] | None
    ) -> Float[Tensor, "B R H N"]:
        """Return the state after the inputs `u`."""
        log_decay, drive = self._discrete()
        age = torch.arange(u.shape[1] - 1, -1, -1, device=u.device)
        weight = self._modes(drive, log_decay, age)
        with torch.autocast(u.device.type, enabled=False):
            both = torch.cat([weight.real, weight.imag], dim=-1)
            new = torch.einsum("btrh,htn->brhn", _precise(u), both)
        if state is None:
            return new
        decay = torch.exp(log_decay * u.shape[1])
        real, imag = state.chunk(2, dim=-1)
        decayed = [real * decay.real - imag * decay.imag, real * decay.imag + imag * decay.real]
        return new + torch.cat(decayed, dim=-1)

    def _discrete(self) -> tuple[Tensor, Tensor]:
        """Return the log of the decay per step and the weight of an input, [H N/2] complex."""
        dt = self.log_dt.exp()[:, None]
        if not self.bilinear:
            A = torch.complex(-self.A_log_real.exp(), self.A_imag)
            return dt * A, torch.expm1(dt * A) / A
        half = torch.complex(-self.A_log_real.exp() * dt / 2, self.A_imag * dt / 2)
        return torch.log1p(half) - torch.log1p(-half), dt / (1 - half)

    @staticmethod
    def _modes(weight: Tensor, log_decay: Tensor, powers: Tensor) -> Tensor:
        """Return weight * decay^power, [H T N/2] complex."""
        steps = powers[:, None]
        return weight[:, None] * torch.exp(log_decay[:, None] * steps)


def _precise(u: Tensor) -> Tensor:
    return u.to(torch.promote_types(u.dtype, torch.float32))
