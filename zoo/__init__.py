"""zoo: what can a fixed-size memory recall?"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`zoo.load` (zoo/evaluation/trained.py) needs torch, which `import zoo` alone does not pay for."""
    if name == "load":
        return import_module("zoo.evaluation.trained").load
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")
