"""What can be wrong with the files of a cell, and with the folder of all cells."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.damages.damage import ESCAPES, Damage, victim

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
TAG = "x: !!python/object/apply:os.system [touch executed]\n"
TARGET = "x: {_target_: pathlib.Path.write_text}\n_target_: os.system\n_args_: [touch executed]\n"
HEADER = "step,split,slice,metric,value\n"
CONTENTS: dict[str, dict[str, str | bytes]] = {
    "metrics.csv": {
        "empty": "",
        "header": HEADER,
        "columns": "a,b\n1,2\n",
        "words": f"{HEADER}x,valid,seq_len=16,accuracy,y\n",
        "cut": f"{HEADER}1,valid,seq_len=16,accuracy,0.1\n2,val",
        "nan": f"{HEADER}1,valid,s,accuracy,nan\n2,train,s,loss,inf\n2,train,s,answers,nan\n",
        "huge": f"{HEADER}{10**400},valid,s,accuracy,1e999\n",
        "negative": f"{HEADER}-1,valid,s,accuracy,-1\n1.5,train,s,loss,1\n1.5,train,s,answers,0\n",
        "escapes": f"{HEADER}1,valid,{ESCAPES.replace(chr(13), '')},accuracy,0.1\n",
        "quote": f'{HEADER}1,"valid,s,accuracy,0.1\n' + "x" * 200_000,
        "zeros": b"\x00" * 4096,
        "binary": bytes(range(256)),
        "wide": HEADER + ",".join("1" * 5000),
    },
    "config.yaml": {
        "empty": "",
        "tag": TAG,
        "target": TARGET,
        "bomb": BOMB,
        "endless": "a: &a {b: *a}\n",
        "keys": "1: 2\n[1, 2]: 3\nnull: {2: {true: 4}}\n",
        "unhashable": "{a: 1}: 3\n? {b: 2}\n",
        "date": "a: 2001-99-99\nb: 2001-01-01\nc: !!binary x\n",
        "a_list": "[1, 2]",
        "deep": "[" * 5000,
        "escapes": f"a: {ESCAPES!r}\n",
        "binary": bytes(range(256)),
        "swollen": "a: 1\n" * 2**20,
    },
    "env.json": {"empty": "", "cut": "{", "a_list": "[]", "binary": bytes(range(256)), "nested": "[" * 10**5},
    "error.txt": {"escapes": f"Traceback (most recent call last):\n  File x\n{ESCAPES}\n", "empty": ""},
    "claim.json": {"a_list": "[]", "empty": "", "binary": bytes(range(256)), "wrong": '{"token": 1}'},
}  # fmt: skip


def of_files() -> Iterator[Damage]:
    """Files that are missing, hold something else, or are no files."""
    for name, contents in CONTENTS.items():
        for word, content in contents.items():
            fill = partial(_fill, file=name, content=content)
            yield Damage(f"{name}:{word}", partial(fill, then=_alike if name == "config.yaml" else None))
            yield Damage(f"{name}:{word}:unfinished", partial(fill, then=_open))
    for name in (*CONTENTS, "result.json"):
        for kind, put in KINDS.items():
            replace = partial(_replace, file=name, put=put)
            yield Damage(f"{name}:{kind}", replace, name == "result.json" and kind == "a_link")
            if name != "result.json":
                yield Damage(f"{name}:{kind}:unfinished", partial(replace, then=_open))
    yield Damage("claim.json:escapes:unfinished", _claim)


def _fill(home: Path, file: str, content: str | bytes, then: Callable[[Path], None] | None) -> None:
    (victim(home) / file).write_bytes(content.encode() if isinstance(content, str) else content)
    if then:
        then(home)


def _alike(home: Path) -> None:
    """Another cell that only its config tells from the first: now somebody has to read them."""
    twin = victim(home).with_name("attention-twin")
    shutil.copytree(victim(home), twin)
    record = json.loads((twin / "result.json").read_text())
    record |= {"run_id": twin.name, "point": "attention-another"}
    (twin / "result.json").write_text(json.dumps(record))


def _open(home: Path) -> None:
    """The cell has not ended."""
    (victim(home) / "result.json").unlink()


def _replace(
    home: Path, file: str, put: Callable[[Path], object], then: Callable[[Path], None] | None = None
) -> None:
    path = victim(home) / file
    path.unlink(missing_ok=True)
    put(path)
    if then:
        then(home)


def _link_out(path: Path) -> None:
    path.symlink_to(path.parents[2] / "secret")


KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a_folder": Path.mkdir,
    "a_pipe": os.mkfifo,
    "a_link": _link_out,
    "a_broken_link": lambda path: path.symlink_to("nowhere"),
    "a_loop": lambda path: path.symlink_to(path),
    "a_device": lambda path: path.symlink_to("/dev/zero"),
}


def _claim(home: Path) -> None:
    keys = ("token", "host", "machine", "pid", "started", "job", "since")
    (victim(home) / "claim.json").write_text(json.dumps(dict.fromkeys(keys, ESCAPES) | {"token": "t"}))
    _open(home)


def of_folders() -> Iterator[Damage]:
    yield Damage("folder:copied", lambda home: _copied(home, "copy"))
    yield Damage("folder:copied_with_escapes", lambda home: _copied(home, ESCAPES.replace("\x00", "")))
    yield Damage("folder:copied_and_changed", lambda home: _copied(home, "attention-copy", seed=7))
    yield Damage("folder:renamed", lambda home: victim(home).rename(home / "=1+1 [red]"))
    yield Damage("folder:a_link", lambda home: (home / "more").symlink_to(home.parent / "elsewhere"))
    yield Damage("folder:a_loop", lambda home: (home / "loop").symlink_to(home))
    yield Damage("folder:no_text", lambda home: os.mkdir(os.fsencode(home) + b"/\xff\xfe"))
    for number, content in enumerate(SWEEPS):
        yield Damage(f"sweep:{number}", partial(_sweep, content=content))


SWEEPS = (
    "", "[]", "[" * 100_000, '{"schema": 1}', '{"schema": 2}', '{"schema": "x"}',
    json.dumps({"schema": 1, "command": ESCAPES, "git_revision": None, "git_clean": None, "since": 1,
                "cells": {"mamba-1": ESCAPES}}),
    json.dumps({"schema": 1, "command": "x", "git_revision": 1, "git_clean": 1, "since": 1e300, "cells": {}}),
    json.dumps({"schema": 1, "command": "x", "git_revision": None, "git_clean": None, "since": 1,
                "cells": {"../../x": "y"}}),
)  # fmt: skip


def _copied(home: Path, name: str, **changes: Any) -> None:
    shutil.copytree(victim(home), home / name)
    if changes:
        path = home / name / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _sweep(home: Path, content: str) -> None:
    (home / ".sweeps").mkdir()
    (home / ".sweeps" / "01234567.json").write_text(content)
