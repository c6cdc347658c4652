"""The selective scan never holds a state for every token."""

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kernels.cases import selective_scan
from zoo.kernels.selective_scan import fused_loop
from zoo.kernels.selective_scan.fused_loop import selective_scan_fused_loop
from zoo.kernels.selective_scan.reference import selective_scan_reference


class Largest(TorchDispatchMode):
    scalars = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple) else (out,):
            if isinstance(part, Tensor):
                self.scalars = max(self.scalars, part.untyped_storage().nbytes() // part.itemsize)
        return out


def memory(scan, inputs: list[Tensor]) -> tuple[int, int]:
    """Scalars of the largest tensor in forward and backward, and of all that is saved between the two."""
    saved = []
    with Largest() as seen, saved_tensors_hooks(lambda s: saved.append(s) or s, lambda s: s):
        scan(*inputs)[0].sum().backward()
    return seen.scalars, sum(s.numel() for s in saved)


def test_nothing_has_a_state_for_every_token():
    B, T, D, N = 32, 128, 32, 16
    full = B * T * D * N
    assert full >= 4 * fused_loop.CACHED
    largest, saved = memory(selective_scan_fused_loop, selective_scan(B, T, D, N))
    assert largest <= full // 4
    assert saved <= full // 2
    _, saved = memory(selective_scan_reference, selective_scan(B, T, D, N))
    assert saved >= 2 * full  # the reference shows that the measure would have seen it
