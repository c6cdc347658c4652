"""Turn records into pictures: pure functions on the table that `zoo.results.load` returns.

which cells         records (what can be read), cells (points, series, loads), ladders (one setting apart)
what they scored    learning_rate (chosen on validation), points, scored, seeds, distance
what it says        frontier, uncertainty, equal, paired, capacity
what is possible    bounds
how it looks        axes, style, draw, labels, ends, legend, figure, page, by_series, curves, table

python -m analysis.pareto       accuracy against state, and against anything else
python -m analysis.statistics   what the points say together, as tables
python -m analysis.figures      published figures beside ours, and other pictures (gallery, published/)
python -m analysis.report       one page to explore a sweep in
python -m analysis.expected     expected numbers against what a folder holds
python -m analysis.loads        every point at every slice, as Markdown
"""

from zoo.common.begin import begins

begins(__name__)
