"""Cross-entropy of a linear head, its gradients included, without holding all logits."""

from zoo.kernels.linear_cross_entropy.chunked import answer_scores, linear_cross_entropy_chunked
from zoo.kernels.linear_cross_entropy.reference import linear_cross_entropy_reference

linear_cross_entropy = linear_cross_entropy_chunked

__all__ = [
    "answer_scores",
    "linear_cross_entropy",
    "linear_cross_entropy_chunked",
    "linear_cross_entropy_reference",
]
