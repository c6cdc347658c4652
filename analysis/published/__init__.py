"""Compare our points with published points and claims, which are kept as CSV files."""
