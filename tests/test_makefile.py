"""`make test` runs what it says: a target that stands twice is silently the last one."""

import subprocess


def test_no_target_stands_twice():
    told = subprocess.run(("make", "--dry-run", "test"), capture_output=True, text=True, check=True)
    assert told.stderr == ""
    assert (
        "pytest -n 3 --dist loadgroup --no-loadscope-reorder -m 'not slow and not gpu and not slurm'"
        in told.stdout
    )
