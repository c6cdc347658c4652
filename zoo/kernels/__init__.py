"""One folder an op: `reference.py` is the readable definition; what stands beside it is faster and agrees."""
