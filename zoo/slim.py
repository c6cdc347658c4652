"""Tables without walls: many columns, also on a narrow terminal."""

from rich import box
from rich.table import Table


def slim(title: str) -> Table:
    """No columns yet."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
