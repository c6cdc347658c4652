"""A look before a commit: lint, types, the laws of what changed against main, a smoke cell.  `make check`

On main itself: of what its last commit changed.  Where git cannot say, all of it is looked at.
"""

import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.command import ROOT
from zoo.config.paths import CONF
from zoo.mixers.cases import mixer_yaml
from zoo.results.source import files

MOST = 12  # mixers whose variants are looked at too
PYTHON = (sys.executable, "-m")
LAWS = "tests/mixers/test_mixer_laws.py"
TASKS = ("zoo/tasks/", "conf/task/", "tests/tasks/")
TYPED = ("zoo/", "analysis/", "hydra_plugins/")  # as in pyproject.toml
EVERYWHERE = (
    *("zoo/mixers/laws.py", "zoo/mixers/cases.py", LAWS),
    *("tests/registry.py", "tests/conftest.py", "constraints.txt", "pyproject.toml"),
)


def main() -> int:
    """0 where all is well."""
    began, paths = time.monotonic(), changed()
    typed = [path for path in paths if path.endswith(".py") and path.startswith(TYPED)]
    bin_of = Path(sys.executable).parent
    with TemporaryDirectory() as place, ThreadPoolExecutor(2) as two:
        lint = [[bin_of / "ruff", "format", "--check", "."], [bin_of / "ruff", "check", "."]]
        smoke = [*PYTHON, "zoo.run", "mixer=sliding_window", "experiment=smoke", f"results={place}"]
        types = [[bin_of / "pyright", *typed]] if typed or not paths else []
        lanes = [*lint, *types], [*laws(paths), smoke]
        failed = [found for lane in two.map(run, lanes) for found in lane]
    print(f"{len(paths) or 'all'} files, {time.monotonic() - began:.0f} s: {'; '.join(failed) or 'all well'}")
    return 1 if failed else 0


def run(commands: Iterable[list[str | Path]]) -> list[str]:
    """Those that failed, and what they say."""
    failed = []
    for command in commands:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            failed.append(f"{Path(command[0]).name} {' '.join(map(str, command[1:4]))}")
            print(done.stdout[-4000:], done.stderr[-2000:], flush=True)
    return failed


def changed() -> list[str]:
    """Files that differ from where this branch left main, or from the last commit, as they stand now."""
    main = next((name for name in ("main", "origin/main") if git("rev-parse", "-q", "--verify", name)), None)
    base = git("merge-base", "HEAD", main) if main else []
    return (differing(base[0]) or differing("HEAD~1")) if base else []


def differing(base: str) -> list[str]:
    found = git("diff", "--name-only", base) + git("ls-files", "--others", "--exclude-standard")
    return sorted(path for path in set(found) if (ROOT / path).is_file())


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def laws(paths: list[str]) -> list[list[str]]:
    """The laws of the mixers and of the tasks that one of the files belongs to."""
    names = mixers(paths)
    ends = "]" if len(names) > MOST else "]["  # of many mixers under their own settings alone
    chosen = " or ".join(f"[{name}{end}" for name in names for end in ends)
    found = [[*PYTHON, "pytest", LAWS, "-k", chosen]] if names else []
    if not paths or any(path.startswith(TASKS) for path in paths):
        found.append([*PYTHON, "pytest", "tests/tasks/test_task_laws.py"])
    return found


def mixers(paths: list[str]) -> list[str]:
    every = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))
    if not paths or set(paths) & set(EVERYWHERE):
        return every
    return [name for name in every if set(paths) & set(made_of(name))]


def made_of(name: str) -> list[str]:
    """The files of a mixer; an op's are all in its folder, for it chooses among them as it runs."""
    found = [f"conf/mixer/{name}.yaml"]
    for path in files(mixer_yaml(name)["_target_"]):
        op = path.parent.parent.name == "kernels" and path.name == "__init__.py"
        found += [str(one.relative_to(ROOT)) for one in (path.parent.glob("*.py") if op else [path])]
    return found


if __name__ == "__main__":
    sys.exit(main())
