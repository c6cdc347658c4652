"""zoo: what can a fixed-size memory recall?"""

from importlib import import_module
from typing import Any

from zoo.common.begin import begins

__version__ = "0.1.0"
begins(__name__)

PARTS = ("bench", "blocks", "config", "evaluation", "kernels", "mixers", "model", "results", "tasks")


def __getattr__(name: str) -> Any:
    """Import `zoo.load` and the parts of zoo when they are asked for: they need torch."""
    if name == "load":
        from zoo.evaluation.trained import load

        return load
    if name in PARTS:
        return import_module(f"zoo.{name}")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(["__version__", "load", *PARTS])
