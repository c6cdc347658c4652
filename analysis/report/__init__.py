"""Make one self-contained HTML page from a folder of records: `python -m analysis.report RESULTS`.

records/sources.py reads the records, settings.py divides them into what one picture can show, payload.py and
details.py collect the page's data, and page.py puts it together.  When a reader filters, statistics.js
computes in the page again, by the rules of `analysis.statistics.learning_rate`, `points`, `seeds` and
`frontier`.
"""
