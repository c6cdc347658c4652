"""Read back what a matplotlib figure shows: legend, overlaps, texts off the page."""

from collections.abc import Iterable
from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def colliding(boxes: Iterable[Bbox]) -> list[tuple[Bbox, Bbox]]:
    return [(one, other) for one, other in combinations(boxes, 2) if one.overlaps(other)]


def off_the_page(texts: Iterable[Text], figure: Figure) -> list[str]:
    page = figure.bbox
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    return [text for text, box in boxes if min(*box.min) < 0 or box.x1 > page.x1 or box.y1 > page.y1]
