"""Write and read the records of cells, which lie in a results folder."""

from zoo.results.evaluations import load_evaluations
from zoo.results.table import load, load_groups, load_metrics

__all__ = ["load", "load_evaluations", "load_groups", "load_metrics"]
