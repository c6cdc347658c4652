"""Ask SLURM's own commands.  They never decide whether a cell is done: its result.json does."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.common.checks import unknown

COMMANDS = ("sbatch", "srun", "squeue", "sinfo", "scontrol")
ENDED = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL",
    "REVOKED",
)  # fmt: skip
GONE = "no longer in the queue"


class NoAnswer(ValueError):
    """A SLURM command failed or hung: an error before a submission, only a delay after one."""


@dataclass(frozen=True)
class Job:
    """One job, or one element of an array, as squeue shows it.  A PREEMPTED job will be PENDING again."""

    name: str
    job_id: str  # 12 or 12_3
    state: str
    reason: str  # why it is pending

    @property
    def index(self) -> int:
        """Return the index in its array; 0 for a job that is no array."""
        return int(self.job_id.partition("_")[2] or 0)

    @property
    def live(self) -> bool:
        """Return whether the job waits or runs."""
        return self.state not in ENDED


def check_commands() -> None:
    """Raise ValueError, one line, if one of SLURM's commands is not on PATH."""
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        raise ValueError(
            f"hydra/launcher=slurm needs {', '.join(missing)}, not found on PATH: run this on a login node "
            "of a SLURM cluster, or without hydra/launcher=slurm on this machine."
        )


def check_partition(name: str | None, timeout_min: int) -> None:
    """Raise ValueError if there is no such partition, or its time limit is shorter than `timeout_min`."""
    limits = dict(line.split("|") for line in ask("sinfo", "-h", "-o", "%R|%l").splitlines())
    if name is None:
        return
    for part in name.split(","):
        if part not in limits:
            raise ValueError(
                unknown("hydra.launcher.partition", part, limits) + f" (there are: {', '.join(limits)})"
            )
    longest = max(_minutes(limits[part]) for part in name.split(","))
    if timeout_min > longest:
        raise ValueError(
            f"hydra.launcher.timeout_min (={timeout_min}) must be at most {longest:.0f}, the limit of the "
            f"partition {name}; a cell that needs longer is requeued and goes on."
        )


def _minutes(limit: str) -> float:
    """Return the minutes of a time limit of sinfo: 3-12:00:00, 30:00 or infinite."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)
    if match is None:
        return float("inf")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 1440 * days + 60 * hours + minutes + seconds / 60


def check_accepted(flags: Mapping[str, Any]) -> None:
    """Let sbatch check account, qos, gres, memory and all else, without submitting a job."""
    words = [f"--{key.replace('_', '-')}" + ("" if v is True else f"={v}") for key, v in flags.items()]
    try:
        ask("sbatch", "--test-only", *words, "--wrap=true")
    except NoAnswer as error:
        raise ValueError(f"SLURM refuses hydra.launcher's settings: {error}") from None


def max_array_size() -> int:
    """Return the most elements that an array may have: indices stay below MaxArraySize."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(match.group(1))) if match else 1000


def jobs(names: Iterable[str] = ()) -> list[Job]:
    """Return this user's jobs of these names, or all; also ended ones while SLURM remembers them."""
    only = [f"--name={','.join(names)}"] if names else []
    text = ask("squeue", "-h", "-r", "-t", "all", "-u", str(os.getuid()), *only, "-o", "%j|%i|%T|%r")
    return [Job(*line.split("|", 3)) for line in text.splitlines() if line.count("|") >= 3]


def state(job_id: str) -> str:
    """Return the state of one job, or of one element of an array (12_3), from inside it."""
    try:
        return ask("squeue", "-h", "-j", job_id, "-t", "all", "-o", "%T").strip() or GONE
    except NoAnswer:
        return GONE


def ask(*words: str) -> str:
    """Run a command of SLURM and return what it prints.  NoAnswer: its error, in one line."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{words[0]} did not answer within a minute: is its controller up?") from None
    if done.returncode:
        why = complaint(done.stderr) or f"exit code {done.returncode}"
        raise NoAnswer(f"{why} (SLURM's {words[0]}, on this machine)")
    return done.stdout


def complaint(text: str) -> str:
    """Return SLURM's error in one line, without the name of its command."""
    prefix = r"(?:\w+: )?(?:error: |fatal: )?"
    lines = [line.strip() for line in text.splitlines()]
    wrong = [line for line in lines if re.match(r"\w+: |allocation failure", line)]
    return "; ".join(re.sub(f"^{prefix}", "", line) for line in wrong)
