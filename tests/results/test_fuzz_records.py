"""Commands that read results meet damaged records and archives, and end in order.

A command passes when it ends by itself, in few lines, with no traceback and nothing that a terminal would
obey; nothing is executed, written elsewhere or handed on; a record that cannot be used is named, and the
others are used.
"""

import copy
import importlib
import json
import os
import random
import re
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command import ROOT, written
from zoo.results.checked import parse
from zoo.results.record import Kind, Record, Slice

SOURCE = ROOT / "docs" / "results" / "mini_zoology_fig2.zip"
SECRET = "of no concern to a reader of records"  # what a file beside the results holds
ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\x00"  # what a terminal obeys
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LINES, LETTERS = 6, 1000  # that one damage is worth on stderr
CLAIMS = "claim,ahead,behind,slice\none," + 2 * "mixer == 'based' and d_model == 64," + "mean\n"
EXPECTED = "mixer,d_model,accuracy,tolerance,slice\nbased,64,1,1,mean\n"
SMALL = ("experiment=smoke", "mixer=attention", "d_model=16", "task.vocab_size=128")
COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "zoo.status": lambda home, out: [str(home), "--all"],
    "zoo.results.collect": lambda home, out: [str(home), "--out", str(out / "all")],
    "zoo.results.archive": lambda home, out: [str(home), "--out", str(out / "all.zip")],
    "zoo.plan": lambda home, out: ["-m", *SMALL, f"results={home}"],
    "analysis.expected": lambda home, out: [str(home), str(out.parent / "expected.csv")],
    "analysis.claims": lambda home, out: [str(home), str(out.parent / "claims.csv")],
    "analysis.statistics.__main__": lambda home, out: [str(home), "--out", str(out)],
    "analysis.report.__main__": lambda home, out: [str(home), "--out", str(out / "report.html")],
    "analysis.pareto": lambda home, out: [str(home), "--out", str(out)],
}
CHEAP = ("zoo.status", "zoo.results.collect", "zoo.results.archive")
OF_FOLDERS = ("zoo.status", "zoo.plan")  # an archive is nothing to them
SLOW = {"zoo.plan": 2, "analysis.pareto": 2, "analysis.statistics.__main__": 3, "analysis.report.__main__": 5}

# damages: by name, what each does to a results folder or its archive, and whether the record is then of
# no use, so that every command has to name it --------------------------------------------------------------

Damage = tuple[Callable[[Path], object], bool]
VALUES: dict[str, tuple[Any, bool]] = {  # of a field, and whether none may hold it
    "nan": (float("nan"), True),
    "infinity": (float("inf"), True),
    "huge": (10**400, True),
    "list": ([[1]], True),
    "null": (None, False),
    "dict": ({"a": 1}, False),
    "negative": (-1, False),
    "large": (2**53, False),
    "fraction": (0.5, False),
    "true": (True, False),
    "escapes": (ESCAPES, False),
    "surrogate": ("\ud800", False),
    "formula": ('=HYPERLINK("http://x","y")', False),
    "tex": (r"$\frac{$", False),
    "markup": ("[/red] <script>alert(1)</script>", False),
    "path": ("../../x", False),
    "long": ("x" * 100_000, False),
}
FREE = ("mixer_settings", "task_settings", "unheard_of")  # may hold numbers of any size, and lists
INNER = (("slices", 0, "slice", "seq_len"), ("mixer_settings", "num_heads"), ("task_settings", "vocab_size"))
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
HEADER = "step,split,slice,metric,value\n"
CONTENTS: dict[str, dict[str, str | bytes]] = {
    "result.json": {"empty": "", "nothing": "null", "nested": "[" * 100_000, "digits": "9" * 10_000},
    "metrics.csv": {
        "columns": "a,b\n1,2\n",
        "words": f"{HEADER}x,valid,seq_len=16,accuracy,y\n",
        "huge": f"{HEADER}{10**400},valid,s,accuracy,1e999\n",
        "quote": f'{HEADER}1,"valid,s,accuracy,0.1\n' + "x" * 200_000,
        "binary": bytes(range(256)),
    },
    "config.yaml": {
        "tag": "x: !!python/object/apply:os.system [touch executed]\n",
        "target": "_target_: os.system\n_args_: [touch executed]\n",
        "bomb": BOMB,
        "endless": "a: &a {b: *a}\n",
        "keys": "1: 2\n[1, 2]: 3\nnull: {2: {true: 4}}\n",
        "swollen": "a: 1\n" * 2**20,
    },
    "env.json": {"cut": "{", "a_list": "[]", "nested": "[" * 10**5},
    "error.txt": {"escapes": f"Traceback (most recent call last):\n  File x\n{ESCAPES}\n"},
    "claim.json": {
        "empty": "",
        "wrong": '{"token": 1}',
        "escapes": json.dumps(
            dict.fromkeys(("host", "machine", "pid", "started", "job", "since"), ESCAPES) | {"token": "t"}
        ),
    },
}
KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a_folder": Path.mkdir,
    "a_pipe": os.mkfifo,
    "a_link": lambda path: path.symlink_to(path.parents[2] / "secret"),
    "a_broken_link": lambda path: path.symlink_to("nowhere"),
    "a_device": lambda path: path.symlink_to("/dev/zero"),
}
SWELLS = 200 * 2**20  # bytes of a member that swells


def victim(home: Path) -> Path:
    return min(path for path in home.iterdir() if path.is_dir() and path.name[0] != ".")


def edited(home: Path, path: tuple[str | int, ...], change: Callable[[Any, Any], object]) -> None:
    file = victim(home) / "result.json"
    inner = record = json.loads(file.read_text())
    for key in path[:-1]:
        inner = inner[key]
    change(inner, path[-1])
    file.write_text(json.dumps(record))


def of_fields() -> Iterator[tuple[str, Damage]]:
    """Yield damages of every field of the schema, and of keys of what is free: missing, or each of VALUES."""
    paths = [
        ((*outer, key), key in of.__required_keys__)
        for outer, of in (((), Record), (("slices", 0), Slice), (("groups", 0), Kind))
        for key in of.__annotations__
    ]
    for path, needed in [*paths, *((path, False) for path in (*INNER, ("unheard_of",)))]:
        free = path[0] in FREE and (len(path) > 1 or path == ("unheard_of",))
        name = ".".join(map(str, path))
        yield f"{name}:missing", (partial(edited, path=path, change=lambda at, key: at.pop(key, 0)), needed)
        for word, (value, refused) in VALUES.items():
            put = partial(lambda at, key, value: at.update({key: copy.deepcopy(value)}), value=value)
            yield f"{name}:{word}", (partial(edited, path=path, change=put), refused and not free)
    for schema in (1, 4, 99, 2.0, "two", ESCAPES, [2]):
        put = partial(lambda at, key, value: at.update({key: value}), value=schema)
        yield f"schema:{str(schema)[:9]!r}", (partial(edited, path=("schema",), change=put), True)
    twice = partial(edited, path=("slices",), change=lambda at, key: at[key].append(at[key][0]))
    yield "slices:doubled", (twice, True)


def put(home: Path, file: str, place: Callable[[Path], object], unfinished: bool) -> None:
    """Replace a file of the victim.  unfinished: the cell has not ended."""
    path = victim(home) / file
    path.unlink(missing_ok=True)
    place(path)
    if unfinished and file != "result.json":
        (victim(home) / "result.json").unlink()


def of_files() -> Iterator[tuple[str, Damage]]:
    for file, contents in CONTENTS.items():
        placed: dict[str, Callable[[Path], object]] = dict(KINDS)
        for word, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            placed[word] = partial(Path.write_bytes, data=data)
        for word, place in placed.items():
            refused = file == "result.json" and (word in contents or word == "a_link")
            there = partial(put, file=file, place=place)
            yield f"{file}:{word}", (partial(there, unfinished=False), refused)
            if file != "result.json":
                yield f"{file}:{word}:unfinished", (partial(there, unfinished=True), False)


def of_folders() -> Iterator[tuple[str, Damage]]:
    for name in ("copy", ESCAPES.replace("\x00", "")):
        copied: Damage = (lambda home, name=name: shutil.copytree(victim(home), home / name), False)
        yield f"folder:copied_{name!r}", copied
    yield "folder:renamed", (lambda home: victim(home).rename(home / "=1+1 [red]"), False)
    yield "folder:a_loop", (lambda home: (home / "loop").symlink_to(home), False)
    yield "folder:no_text", (lambda home: os.mkdir(os.fsencode(home) + b"/\xff\xfe"), False)
    sweep = {"schema": 1, "command": ESCAPES, "git_revision": None, "git_clean": None, "since": 1}
    for i, cells in enumerate(({"mamba-1": ESCAPES}, {"../../x": "y"}, 3)):
        text = json.dumps(sweep | {"cells": cells})
        yield f"sweep:{i}", (lambda home, text=text: written(home / ".sweeps" / "01234567.json", text), False)


def of_archives() -> Iterator[tuple[str, Damage]]:
    for share in (0, 0.3, 0.99):
        yield f"zip:cut_to_{share}", (partial(cut, share=share), False)
    for share in range(5, 100, 10):
        yield f"zip:flipped_{share}", (partial(cut, share=share / 100, flipped=True), False)
    for name in ("/etc/x/", "../../x/", "..\\x\\", "//x/", f"{ESCAPES}/", "x/result.json/"):
        yield f"zip:named_{name!r}", (partial(named, name=f"{name}result.json"), False)
    for claims in (None, 3000):
        yield f"zip:swells_{claims}", (partial(swollen, claims=claims), False)
    yield "zip:a_text", (lambda path: path.write_text("x"), False)


def cut(path: Path, share: float, flipped: bool = False) -> None:
    """Cut the archive at this share of it.  flipped: it goes on there, after one byte that is wrong."""
    content = path.read_bytes()
    place = int(share * len(content))
    rest = bytes([content[place] ^ 0x10]) + content[place + 1 :] if flipped else b""
    path.write_bytes(content[:place] + rest)


def named(path: Path, name: str) -> None:
    """Add a whole record under this name."""
    with zipfile.ZipFile(path, "a") as file:
        first = next(each for each in file.namelist() if each.endswith("/result.json"))
        info = zipfile.ZipInfo("x")
        info.filename = name
        file.writestr(info, file.read(first))


def swollen(path: Path, claims: int | None) -> None:
    """Add a result.json of zeros, as large as SWELLS.  claims: the size that its entry states instead."""
    whole = zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=9)
    with whole as file, file.open("swollen/result.json", "w") as member:
        for _ in range(SWELLS // 2**20):
            member.write(bytes(2**20))
    if claims is not None:
        content = path.read_bytes()
        path.write_bytes(content.replace(struct.pack("<I", SWELLS), struct.pack("<I", claims)))


ALL: dict[str, Damage] = dict([*of_fields(), *of_files(), *of_folders(), *of_archives()])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four finished cells of a real sweep, two mixers of two widths each; the first's record is of today."""

    def chosen(record: dict[str, Any]) -> bool:
        if record["slices"][0]["slice"] != {"seq_len": 16, "num_kv_pairs": 2} or record["seed"] != 2:
            return False
        return record["mixer"] in ("attention", "based") and record["d_model"] in (32, 64)

    home = tmp_path_factory.mktemp("sound") / "home"
    with zipfile.ZipFile(SOURCE) as file:
        for name in file.namelist():
            if name.endswith("/result.json") and chosen(json.loads(file.read(name))):
                folder = name.partition("/")[0]
                file.extractall(home, [each for each in file.namelist() if each.startswith(f"{folder}/")])
    path = victim(home) / "result.json"
    path.write_text(json.dumps(parse(path.read_text(), path)))
    return home


@pytest.fixture
def wrong(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[str, str], str]:
    """Return a function that names the fault of a command before a damage; "": none."""

    def trial(name: str, command: str) -> str:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        for folder in ("elsewhere/x", "here", "out"):
            (place / folder).mkdir(parents=True)
        for file, text in {"secret": SECRET, "expected.csv": EXPECTED, "claims.csv": CLAIMS}.items():
            (place / file).write_text(text)
        home, (damage, refused) = shutil.copytree(sound, place / "home"), ALL[name]
        cell = victim(home).name
        if name.startswith("zip:"):
            home = Path(shutil.make_archive(str(place / "packed"), "zip", home))
        damage(home)
        monkeypatch.chdir(place / "here")
        before = listed(place)
        code = exit_code(command, COMMANDS[command](home, place / "out"))
        out, err = capfd.readouterr()
        fault = fault_of(code, out, err, cell if refused else "")
        if listed(place) != before:
            fault = fault or "wrote outside its own place"
        if any(SECRET.encode() in path.read_bytes() for path in (place / "out").rglob("*") if path.is_file()):
            fault = fault or "handed a file on that lies elsewhere"
        return fault and f"{command}, {name}: {fault}\n{out[-1500:]}\n{err[-3000:]}"

    return trial


def exit_code(command: str, words: list[str]) -> int | str:
    """Return the exit code of a command, or the type of what it raised."""
    main = importlib.import_module(command).main
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return main(words) or 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        return repr(error)


def listed(place: Path) -> dict[str, Any]:
    """Return every file but those below out, with its size and time."""
    paths = [path for path in place.rglob("*") if not path.is_relative_to(place / "out")]
    stats = {str(path): os.lstat(path) for path in paths}
    return {path: (one.st_size, one.st_mtime_ns * os.path.isfile(path)) for path, one in stats.items()}


def fault_of(code: int | str, out: str, err: str, named: str) -> str:
    """Return what was wrong; "": nothing.  named: the cell whose record cannot be used."""
    lines = err.splitlines()
    if isinstance(code, str):
        return f"raised {code}"
    if control := CONTROL.search(out + err):
        return f"raw control character {control[0]!r} on the screen"
    if len(lines) > LINES or max(map(len, lines), default=0) > LETTERS:
        return f"{len(lines)} lines, {len(err)} characters on stderr"
    if code and not err.strip() and "damaged" not in out:
        return f"exit code {code} without a word"
    if named and named not in re.sub(r"[\s│]+", "", out) + out + err:  # without the folds of a table
        return "a record that cannot be used is not named"
    return f"one record stops it: exit code {code}" if named and code not in (0, 3) else ""


MENDED = {  # a damage that a command once failed on -> that command
    "claim.json:a_pipe:unfinished": "zoo.status",  # waited for ever
    "claim.json:a_broken_link:unfinished": "zoo.status",
    "claim.json:escapes:unfinished": "zoo.status",
    "metrics.csv:a_pipe:unfinished": "zoo.status",
    "zip:named_'//x/'": "zoo.results.collect",  # a loop in Python's zipfile
    "zip:swells_3000": "zoo.results.collect",
    "error.txt:a_link:unfinished": "analysis.report.__main__",  # was handed on
    "config.yaml:bomb": "analysis.report.__main__",
    "config.yaml:keys": "analysis.report.__main__",
    "task_settings.vocab_size:escapes": "analysis.pareto",  # was computed with
    "label:escapes": "analysis.pareto",
    "label:tex": "analysis.pareto",
    "run_id:long": "zoo.results.archive",  # no name in an archive is so long
    "mixer_settings.num_heads:huge": "zoo.results.collect",  # a complaint of 2,900 letters
    "adaptation:markup": "zoo.plan",  # was taken for markup of the screen
}


@pytest.mark.parametrize(("name", "command"), MENDED.items())
def test_a_mended_fault_does_not_return(name: str, command: str, wrong: Callable[[str, str], str]) -> None:
    assert not wrong(name, command)


def damages(command: str) -> list[str]:
    return sorted(name for name in ALL if command not in OF_FOLDERS or not name.startswith("zip:"))


@pytest.mark.parametrize("command", COMMANDS)
def test_some_damages_before_every_command(command: str, wrong: Callable[[str, str], str]) -> None:
    drawn = random.Random(command).sample(damages(command), 40 if command in CHEAP else SLOW.get(command, 6))
    assert not [fault for name in drawn if (fault := wrong(name, command))]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("command", COMMANDS)
def test_all_damages(command: str, wrong: Callable[[str, str], str]) -> None:
    assert not [fault for name in damages(command) if (fault := wrong(name, command))]
