"""Benchmarks: each measurement stands beside its alternative from the same run and the machine's limit."""
