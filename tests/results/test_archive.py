"""An archive reads like its folder; one that unpacks to far more than records is not read."""

import struct
import tracemalloc
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import yaml

from tests.command import Run
from tests.results.test_results import COMPOSER, write
from zoo.results import archive, table
from zoo.results.home import WEIGHTS, opened, text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "sweep"
    for seed in (0, 1):
        cell = write(folder, f"seed={seed}")
        (cell / "config.yaml").write_text(yaml.safe_dump(COMPOSER.cell([f"seed={seed}"]).config))
        for name in ("env.json", "last.ckpt"):
            (cell / name).write_text(f"{name} {seed}")
    write(folder, "lr=1.0", status="diverged").joinpath("result.json").unlink()  # a cell that is not through
    return folder


def test_an_archive_reads_like_its_folder(home: Path, run: Run) -> None:
    packed = home.with_suffix(".zip")
    assert run.done(archive.main, home) == f"2 cells: {packed}\n"
    for load in (table.load, table.load_metrics, table.load_groups):
        pd.testing.assert_frame_equal(load(str(packed)), load(home))
    assert not [name for name in zipfile.ZipFile(packed).namelist() if "ckpt" in name]


def test_a_dot_in_the_name_of_a_folder_stays(home: Path, run: Run) -> None:
    renamed = home.rename(home.with_name("lr_0.5"))
    assert run.done(archive.main, renamed) == f"2 cells: {renamed}.zip\n"


def test_a_missing_linked_or_foreign_file_is_named_and_its_record_stays(home: Path, run: Run) -> None:
    next(home.glob("*/env.json")).unlink()
    outside = home.parent / "secret"
    outside.write_text("x")
    curve = next(home.glob("*/metrics.csv"))
    curve.unlink()
    curve.symlink_to(outside)
    one, other = home.glob("*/config.yaml")
    one.write_bytes(other.read_bytes())
    one.with_name(WEIGHTS).write_bytes(b"x")
    lines = sorted(run(archive.main, home, "--weights", code=3)[1].splitlines(), key=len)
    assert lines[0].endswith("/env.json is missing.") and "metrics.csv is a link, which may" in lines[1]
    assert f"{one} is the config of" in lines[2] and "has no weights of its record" in lines[3]
    with zipfile.ZipFile(home.with_suffix(".zip")) as file:
        assert len(file.namelist()) == 5 and b"x" not in map(file.read, file.namelist())
    assert len(table.load(home.with_suffix(".zip")).run_id.unique()) == 2


def test_the_same_cells_make_the_same_bytes(home: Path, tmp_path: Path) -> None:
    archive.archive(home, tmp_path / "a.zip")
    for path in home.glob("*/*.*"):
        path.touch()
    archive.archive(home, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none", "does not exist: give the one zoo.run wrote to"),
        ("sweep --out a.tar", "must end in .zip"),
        ("sweep.zip", "sweep.zip is an archive; a new one needs a name: give one with --out NAME.zip."),
        ("sweep --out sweep/x.txt/a.zip", "give another place with --out"),
        ("loop", "cannot be read"),
        ("/", "give one with --out NAME.zip"),
    ],
)
def test_a_mistake_is_one_line(home: Path, cwd: Path, run: Run, words: str, message: str) -> None:
    (home / "x.txt").touch()
    (cwd / "loop").symlink_to("loop")
    assert message in run.line(archive.main, *words.split())
    assert not list(cwd.glob("*.zip"))


def test_an_interrupted_archive_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "read_bytes", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        archive.main([str(home)])
    assert [path.name for path in home.parent.iterdir()] == [home.name]


def test_an_entry_larger_than_its_header_says_is_not_unpacked(tmp_path: Path):
    path = tmp_path / "claims.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a-1/result.json", b"0" * 2**26)
    whole = bytearray(path.read_bytes())
    for place in (22, whole.rfind(b"PK\x01\x02") + 24):  # of the local header, of the directory
        struct.pack_into("<L", whole, place, 10)
    path.write_bytes(whole)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"result\.json is damaged"):
            text(opened(path) / "a-1", "result.json")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_an_archive_that_inflates_far_more_than_records_is_not_read(tmp_path: Path):
    path = tmp_path / "inflated.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(90):
            file.writestr(f"a-{i}/result.json", b" " * (3 * 2**20))
    with pytest.raises(ValueError, match="more than 50 times as much: no records do; it is not read"):
        opened(path)
