"""Describe where a cell ran: versions, git revision, machine."""

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("zoo-recall", "torch", "pytorch-lightning", "hydra-core", "numpy")


@functools.cache
def machine() -> dict[str, Any]:
    """Return versions, git revision and machine of this process: with a cell's words, enough to repeat it."""
    revision, clean = _git()
    return {
        "versions": {"python": platform.python_version()} | {p: installed(p) for p in PACKAGES},
        "git_revision": revision,
        "git_clean": clean,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def installed(package: str) -> str | None:
    """Return the version of a package; None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> tuple[str | None, bool | None]:
    """Return the revision of the running checkout and whether it is clean; None for an installed package."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None, None
    try:
        git = ["git", "-C", str(here)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head.stdout.strip(), not changed.stdout.strip()
