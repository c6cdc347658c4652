"""One folder for each op: `reference.py` is the readable definition; its other forms agree and are faster."""
