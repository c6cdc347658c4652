"""Sweeps on a SLURM cluster: submit what is missing as job arrays, and follow it."""
