"""Taylor attention by flash-linear-attention: in chunks up to 16 features, quadratic above.

Their tensors are [B T H C], their eps is 1e-6, and sums, outputs and normalisers are float32 in memory.
"""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from torch import Tensor

from zoo.kernels.common.packages import lifted, off_device

EPS = 1e-6
IN_CHUNKS, LARGEST = 16, 128  # channels of q and k


def taylor_attention_fla(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """Attend by the package's kernel for this many features."""
    del eps
    lead = v.shape[:-2]
    return taylor_attention_of_heads(*(_four(x) for x in (q, k, v))).reshape(*lead, *v.shape[-2:])


def unfit(q: Tensor, k: Tensor, v: Tensor, eps: float) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if not q.shape[:-1] == k.shape[:-1] == v.shape[:-1]:
        return "q, k and v must have the same leading dimensions"
    if eps != EPS:
        return f"eps (={eps}) must be fla's {EPS}"
    if q.shape[-1] > LARGEST:
        return f"feature_dim (={q.shape[-1]}) must be at most {LARGEST}"
    return off_device("fla", q)


def _four(x: Tensor) -> Tensor:
    """Return [B H T C], a view where one can be had."""
    return x.flatten(0, -4) if x.ndim > 4 else x[(None,) * (4 - x.ndim)]


@lifted()
def taylor_attention_of_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend in [B H T C]."""
    from fla.ops.based import fused_chunk_based, parallel_based

    function = fused_chunk_based if q.shape[-1] <= IN_CHUNKS else parallel_based
    return function(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).to(v.dtype)
