"""One self-contained HTML page from a folder of records: `python -m analysis.report RESULTS`.

sources.py reads what there is, settings.py divides it into what one picture can show, payload.py and
details.py say what the page must know, page.py puts it together.  What a reader then filters is computed
in the page, by statistics.js: the rules of `analysis.statistics.learning_rate`, `points`, `seeds` and
`frontier`, again.
"""
