"""A SLURM that only says yes: its commands take arrays into a queue in which every job runs for ever.

For measuring the driver at sizes that no test machine schedules.  Real behaviour is for tests/slurm.
"""

from pathlib import Path

COMMANDS = {
    # an array's id, its name and its size become a line of the queue
    "sbatch": """
case " $* " in *" --test-only "*) exit 0;; esac
for script; do :; done
name=$(sed -n 's/^#SBATCH --job-name=//p' "$script")
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$script")
id=$(($(wc -l < "$QUEUE") + 1))
echo "$id $name ${last:-none}" >> "$QUEUE"
echo "Submitted batch job $id"
""",
    "squeue": """
awk '{ if ($3 == "none") print $2 "|" $1 "|RUNNING|None";
       else for (i = 0; i <= $3; i++) print $2 "|" $1 "_" i "|RUNNING|None" }' "$QUEUE"
""",
    "sinfo": "echo 'main|infinite'",
    "scontrol": "echo 'MaxArraySize            = 1001'",
    "srun": "exit 1",
}


def install(folder: Path) -> dict[str, str]:
    """Put the commands into a folder; the environment that needs PATH to begin with it."""
    folder.mkdir()
    (folder / "queue").touch()
    for name, text in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/sh\nQUEUE={folder}/queue\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}
