"""The records of cells: what lies in a results folder, and how it is read."""

from zoo.results.evaluations import load_evaluations
from zoo.results.table import load, load_groups, load_metrics

__all__ = ["load", "load_evaluations", "load_groups", "load_metrics"]
