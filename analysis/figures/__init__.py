"""Draw pictures; each has a small file of its own: `python -m analysis.figures --list`."""
