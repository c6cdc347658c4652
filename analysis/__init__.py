"""Turn records into pictures: pure functions on the table that `zoo.results.load` returns.

which cells         records: cells (points, series, loads), ladders (one setting apart)
what they scored    statistics: learning_rate (chosen on validation), points, scored, seeds, groups
what it shows       statistics: frontier, uncertainty, equal, paired, capacity
what is possible    statistics: bounds
how it looks        drawing: style, draw, labels, ends, legend, figure, page, by_series, curves

python -m analysis.pareto       accuracy against state, and against anything else
python -m analysis.statistics   what the points show together, as tables
python -m analysis.figures      published figures beside ours, and other pictures (gallery, published/)
python -m analysis.report       one page to explore a sweep in
python -m analysis.expected     expected numbers against what a folder holds
python -m analysis.claims       claims written down before the runs, tested seed by seed
"""

from zoo.common.begin import begins

begins(__name__)
