"""PaTH: softmax attention in which each token multiplies all earlier keys by I - beta w w^T."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", "chunked")


def path_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    w: Float[Tensor, "B G T C"],
    beta: Float[Tensor, "B G T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G S C"]]:
    """Return attention with the logits q_t k_s / sqrt C for s <= t, where every token t first replaces
    all earlier keys k by k - beta_t w_t (w_t k); and the keys as the last token leaves them.

    Yang et al. 2025 (arXiv 2505.16381), Eq. 2 and 3, where the keys carry the products of matrices.
    """
    return OP.run("chunked", q, k, v, w, beta)
