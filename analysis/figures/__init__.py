"""One small file a picture: `python -m analysis.figures --list`."""
