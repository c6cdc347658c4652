"""BigBird: attention to a window, a prefix and fixed columns, Zaheer et al. 2020 (arXiv 2007.14062)."""

from torch import Tensor

from tests.definitions import attention
from zoo.mixers.bigbird import BigBird


def definition(mixer: BigBird, x: Tensor) -> Tensor:
    def seen(t: int) -> list[int]:
        return [s for s in range(t + 1) if t - s < mixer.window or s < mixer.num_global or s in mixer.columns]

    y = attention.attend(mixer.qkv, *attention.positioned(mixer.qkv, x), seen)
    return attention.project(mixer.out_proj, y)
