"""Damaged records before every command that reads any: what each of them does with each damage.

    python -m tests.fuzz_records                       all damages x all commands: hours, a table
    python -m tests.fuzz_records --share 1/8 --only schema: --commands zoo.collect,zoo.status

A trial passes when the command ends by itself, in lines that a person can read: no traceback, nothing that a
terminal would obey, nothing executed, nothing read or written that is not its own; a record that cannot be
used is named, and the others are.
"""

import argparse
import contextlib
import importlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.damages import damages
from tests.damages.archives import pack
from tests.damages.damage import SECRET, Damage, make, victim

SECONDS = 60  # that a command may take; a sound home takes two
LINES, LETTERS = 6, 1000  # that one damage is worth on stderr
CLAIMS = "claim,ahead,behind,slice\n" + ",".join(
    ["one", *2 * ["mixer == 'based' and d_model == 64"], "mean\n"]
)
EXPECTED = "mixer,d_model,accuracy,tolerance,slice\nbased,64,1,1,mean\n"
SMALL = ("experiment=smoke", "mixer=attention", "d_model=16", "task.vocab_size=128")
COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "zoo.status": lambda home, out: [str(home), "--all"],
    "zoo.collect": lambda home, out: [str(home), "--out", str(out / "all")],
    "zoo.archive": lambda home, out: [str(home), "--out", str(out / "all.zip")],
    "zoo.plan": lambda home, out: ["-m", *SMALL, f"results={home}"],
    "analysis.loads": lambda home, out: [str(home)],
    "analysis.expected": lambda home, out: [str(home), str(out.parent / "expected.csv")],
    "analysis.claims": lambda home, out: [str(home), str(out.parent / "claims.csv")],
    "analysis.statistics.__main__": lambda home, out: [str(home), "--out", str(out)],
    "analysis.report.__main__": lambda home, out: [str(home), "--out", str(out / "report.html")],
    "analysis.pareto": lambda home, out: [str(home), "--out", str(out)],
}
CHEAP = ("zoo.status", "zoo.collect", "zoo.archive")
OF_FOLDERS = ("zoo.status", "zoo.plan")  # an archive is nothing to them
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
LIBRARIES = ("cache", "matplotlib", "torchinductor")  # what they keep for themselves at first use
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Trial:
    """wrong: what was wrong, "" where it passed; said: the output, for whoever looks."""

    damage: str
    command: str
    wrong: str
    said: str = ""


class Watch:
    """Sees what this process opens for writing, starts or removes while `inside` is set."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.inside is None:
            return
        if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"):
            self.seen.append(f"{event} {args[:2]}")
        paths: Sequence[Any] = ()
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING
        if writes or event in ("os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"):
            paths = args[:1]
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = args[:2]
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and not self._own(os.fsdecode(path)):
                self.seen.append(f"{event} {os.fsdecode(path)}")

    def _own(self, path: str) -> bool:
        assert self.inside is not None
        real = os.path.realpath(path)
        return real.startswith((f"{self.inside}/", "/dev/null")) or any(each in path for each in LIBRARIES)


WATCH = Watch()


def trials(chosen: Sequence[Damage], commands: Sequence[str], packed_too: bool = True) -> Iterator[Trial]:
    """Each damage before each command; those of a folder also in an archive of it, where asked."""
    with tempfile.TemporaryDirectory() as root:
        sound = make(Path(root).resolve() / "sound")
        for damage in chosen:
            if not damage.packed:
                yield from _each(damage, sound, commands, packed=False)
            if damage.packed or packed_too:
                yield from _each(damage, sound, [c for c in commands if c not in OF_FOLDERS], packed=True)


def _each(damage: Damage, sound: Path, commands: Sequence[str], packed: bool) -> Iterator[Trial]:
    place = sound.parent / "place"
    home = _placed(place, sound)
    name = victim(home).name
    try:
        if not damage.packed:
            damage.do(home)
        if packed:
            home = pack(home, place / "home.zip")
        if damage.packed:
            damage.do(home)
        for command in commands:
            yield _trial(damage, command, home, name)
    finally:
        shutil.rmtree(place)


def _placed(place: Path, sound: Path) -> Path:
    """A copy of the sound home, with neighbours that are none of its business."""
    for folder in ("elsewhere/x", "here"):
        (place / folder).mkdir(parents=True)
    (place / "secret").write_text(SECRET)
    (place / "elsewhere" / "x" / "config.yaml").write_text("a: 1")
    (place / "expected.csv").write_text(EXPECTED)
    (place / "claims.csv").write_text(CLAIMS)
    shutil.copytree(sound, place / "home")
    return place / "home"


def _trial(damage: Damage, command: str, home: Path, name: str) -> Trial:
    place, out = home.parent, home.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    before = _listed(place)
    code, said, err = run(command, COMMANDS[command](home, out), place)
    wrong = _wrong(damage, command, code, said, err, name)
    if _listed(place) != before:
        wrong = wrong or "wrote outside its own place"
    if any(SECRET.encode() in path.read_bytes() for path in out.rglob("*") if path.is_file()):
        wrong = wrong or "handed a file on that lies elsewhere"
    where = f"{damage.name}{' (packed)' * (home.is_file() and not damage.packed)}"
    return Trial(where, command, wrong, f"{code} {said[-1500:]}\n{err[-3000:]}")


def _listed(place: Path) -> dict[str, Any]:
    found = {}
    for folder, folders, files in os.walk(place):
        if folder == str(place):
            folders.remove("out")
        for each in (*folders, *files):
            status = os.lstat(os.path.join(folder, each))
            found[os.path.join(folder, each)] = status.st_size, status.st_mtime_ns * (each in files)
    return found


def run(command: str, words: list[str], place: Path) -> tuple[int | str, str, str]:
    """Exit code, or the traceback's last line where there was one; output; errors."""
    main = importlib.import_module(command).main
    out, err, here = io.StringIO(), io.StringIO(), os.getcwd()
    code: int | str
    WATCH.seen.clear()
    os.chdir(place / "here")
    previous = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            WATCH.inside = place
            code = main(words) or 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        code = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
        err.write(traceback.format_exc())
    finally:
        WATCH.inside = None
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        os.chdir(here)
    return code, out.getvalue(), err.getvalue()


class TooLong(BaseException):
    """No command may swallow it."""


def _too_long(*_: object) -> None:
    raise TooLong


def _wrong(damage: Damage, command: str, code: int | str, said: str, err: str, name: str) -> str:
    if isinstance(code, str):
        return f"traceback: {code}"
    if WATCH.seen:
        return f"did what it must not: {WATCH.seen[0]}"
    if control := CONTROL.search(said + err):
        return f"raw control character {control[0]!r} on the screen"
    lines = err.splitlines()
    if len(lines) > LINES or max(map(len, lines), default=0) > LETTERS:
        return f"{len(lines)} lines, {len(err)} characters on stderr"
    if code and not err.strip() and not (command == "zoo.status" and "damaged" in said):
        return f"exit code {code} without a word"
    if damage.refused and name not in _joined(said) + err:
        return "a record that cannot be used is not named"
    if damage.refused and code not in (0, 3):
        return f"one record stops it: exit code {code}"
    return ""


def _joined(said: str) -> str:
    """Without the folds of a table."""
    return re.sub(r"[\s│]+", "", said) + said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="damages whose name begins so")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="the I-th of N parts of the damages")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--no-archives", action="store_true", help="damages of a folder in the folder alone")
    options = parser.parse_args(arguments)
    part, parts = map(int, options.share.split("/"))
    chosen = [damage for damage in damages() if damage.name.startswith(options.only)][part - 1 :: parts]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials(chosen, options.commands.split(","), not options.no_archives):
        counts[trial.command][trial.wrong.partition(":")[0] or "passed"] += 1
        if trial.wrong:
            print(f"{trial.command} {trial.damage}: {trial.wrong}", flush=True)
    for command, found in counts.items():
        print(f"{command}: {sum(found.values())} tried, {dict(found)}")
    print(
        f"in all: {sum(map(Counter.total, counts.values()))} tried, {dict(sum(counts.values(), Counter()))}"
    )
    return int(any(set(found) != {"passed"} for found in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
