"""Measurements that decide: each beside its alternative of the same run and what the machine allows."""
