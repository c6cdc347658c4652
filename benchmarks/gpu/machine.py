"""What every table says of itself: device, versions, command."""

import platform

import torch

from benchmarks.gpu.commands import Place
from zoo.bench.machine import processor
from zoo.kernels.available import absent

PACKAGES = ("triton", "fla", "flash_attn", "mamba_ssm")


def device(place: Place) -> str:
    return torch.cuda.get_device_name() if place.device == "cuda" else processor()


def footer(place: Place, part: str) -> str:
    words = f"python -m benchmarks.gpu {part} --device {place.device}{' --small' if place.small else ''}"
    there = [name for name in PACKAGES if absent(name) is None]
    return (
        f"`{words}`; {device(place)}; torch {torch.__version__}, Python {platform.python_version()}; "
        f"installed: {', '.join(there) or 'none of ' + ', '.join(PACKAGES)}."
    )
