"""Read files of records from a results folder or an archive alike; both may be damaged or hostile.

Before a file is read, its size is checked (in an archive the size that it claims; more than that is never
unpacked), and that it is a file.  Every error is a ValueError in one line.
"""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG

from zoo.common.checks import one_line
from zoo.common.foreign import visible

Home = Path | zipfile.Path  # a results folder or a folder in it; on disk, or in an archive
MIB = 2**20
WEIGHTS = "weights.safetensors"
LARGEST = {"metrics.csv": 256 * MIB, WEIGHTS: 8 * 2**30}  # the most bytes of a file, by name
LARGE = 4 * MIB  # the most of any other file; a real one has some kB
WHOLE = 16 * 2**30  # the most that an archive holds in all
MOST_INFLATED = 50  # unpacked over packed size, of an archive above LARGEST["metrics.csv"]; real ones have 10
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, IndexError)
DEPTH = 2  # levels below a folder down to which results folders are searched
_PLAIN = re.compile(r"(?!\.\.?/)[^/\\]+(/(?!\.\.?(/|$))[^/\\]+)*/?")  # neither absolute nor with .. in it
FILES = ("config.yaml", "env.json", "metrics.csv", "result.json")


def opened(results: Path) -> Home:
    """Return the folder, or an archive as if it were one.  ValueError: no archive, or one too large."""
    with _readable(results):
        if not results.is_file():
            return results
        if not zipfile.is_zipfile(results):
            raise ValueError(
                f"results folder {shown(results)} is a file, and no whole archive: "
                "give the folder that zoo.run wrote to, or fetch the archive again."
            )
        file = zipfile.ZipFile(results)
    entries = file.infolist()
    for entry in entries:
        if not _PLAIN.fullmatch(entry.filename):
            raise ValueError(
                f"{shown(results)} names a file {shown(entry.filename):.200}, which is no place in an "
                "archive: it is not read; make it again with `zoo archive`."
            )
        name = entry.filename.rpartition("/")[2]
        if entry.file_size > largest(name):
            raise ValueError(
                f"{shown(results / entry.filename)} {_too_large(entry.file_size, largest(name))}."
            )
    if (total := sum(entry.file_size for entry in entries)) > WHOLE:
        raise ValueError(f"{shown(results)} {_too_large(total, WHOLE)}.")
    packed = sum(entry.compress_size for entry in entries)
    if total > MOST_INFLATED * packed + LARGEST["metrics.csv"]:
        raise ValueError(
            f"{shown(results)} is {packed / MIB:,.0f} MiB that would unpack to {total / MIB:,.0f}, "
            f"more than {MOST_INFLATED} times as much: no records do; it is not read."
        )
    return zipfile.Path(file)


def largest(name: str) -> int:
    """Return the most bytes that a file of this name may have."""
    return LARGEST.get(name, LARGE)


def cells(results: Path) -> Iterator[Home]:
    """Yield the folders, by name, that may be cells; also of an archive.  ValueError: neither is there."""
    home = opened(results)
    if isinstance(home, Path):
        return folders(home)
    return iter(sorted((inner for inner in home.iterdir() if inner.is_dir()), key=lambda inner: inner.name))


def folders(results: Path) -> Iterator[Path]:
    """Return the folders in a results folder, by name, that may be cells.  ValueError: no such folder."""
    try:
        with os.scandir(results) as entries:
            names = sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError) as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else "is a file"
        raise ValueError(f"results folder {shown(results)} {what}: give the one zoo.run wrote to.") from None
    except OSError as error:
        raise ValueError(f"results folder {shown(results)} cannot be read ({error.strerror}).") from None
    return (results / name for name in names)


def meant(homes: Sequence[Path]) -> list[Path]:
    """Replace each folder that holds no cell by the results folders and archives below it."""
    return [place for home in homes for place in ([home] if _holds_cells(home) else places(home))]


def places(home: Path, depth: int = DEPTH) -> list[Path]:
    """Return a results folder or archive and those inside it; without the folder if only those hold cells."""
    if not home.is_dir():
        return [home]
    inner = [
        place
        for path in sorted(home.iterdir())
        if path.suffix == ".zip" or (depth and path.is_dir() and path.name[0] != "." and not is_cell(path))
        for place in places(path, depth - 1)
    ]
    inner = [place for place in inner if _holds_cells(place)]
    return inner if inner and not _holds_cells(home) else [home, *inner]


def _holds_cells(home: Path) -> bool:
    """Return whether a folder is a results folder itself; an archive counts as one."""
    return not home.is_dir() or any(map(is_cell, folders(home)))


def is_cell(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("result.json", "error.txt", "config.yaml"))


def others_in(results: Path) -> list[str]:
    """Name the folders in a results folder that are results folders of their own."""
    if not results.is_dir():
        return []
    others = (folder for folder in folders(results) if not (folder / "config.yaml").exists())  # no cells
    return [shown(folder) for folder in others if next(folder.glob("*/result.json"), None)]


def empty(results: Path, holds: str = "no finished cell") -> str:
    """Return one line that says that a results folder holds nothing, and where to look instead."""
    inner = others_in(results)
    hint = f"give {' or '.join(inner[:3])}, which hold some" if inner else "run `python -m zoo.run` first"
    if results.is_dir() and is_cell(results):
        hint = f"it is one cell, give the folder that it lies in, {shown(results.absolute().parent)}"
    return f"results folder {shown(results)} holds {holds}: {hint}."


def text(folder: Home, name: str, *, linked: bool = True) -> str:
    """Read a file of a cell.  ValueError, one line: it is missing, too large, damaged or no text.

    linked: whether it may be a link, which may lead anywhere; False where its contents are passed on.
    """
    path = folder / name
    with _readable(path):
        return read_bytes(folder, name, linked=linked).decode()


def read_bytes(folder: Home, name: str, *, linked: bool = True) -> bytes:
    """Read a file of a cell as bytes, as `text` does."""
    path = folder / name
    if not linked and isinstance(path, Path) and path.is_symlink():
        raise ValueError(f"{shown(path)} is a link, which may lead anywhere: put the file itself there.")
    with _readable(path):
        size = _size(path)
        if size > largest(name):
            raise ValueError(f"{shown(path)} {_too_large(size, largest(name))}.")
        with path.open("rb") as file:
            return file.read(size + 1)  # never unpacks more than an archive's entry claims


def shown(path: object) -> str:
    """Return a path as it may be printed: names of folders may come from strangers."""
    return visible(str(path))


def _size(path: Home) -> int:
    if isinstance(path, zipfile.Path):
        return path.root.getinfo(path.at).file_size
    status = path.stat()
    if not S_ISREG(status.st_mode):
        raise ValueError(f"{shown(path)} is no file.")
    return status.st_size


@contextmanager
def _readable(path: object) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        raise ValueError(
            f"{shown(path)} is damaged ({visible(one_line(error))[:120]}): fetch it again, or make it again "
            "with `zoo archive`."
        ) from None
    except (KeyError, FileNotFoundError):
        raise ValueError(f"{shown(path)} is missing.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{shown(path)} is no text ({error}).") from None
    except OSError as error:
        raise ValueError(f"{shown(path)} cannot be read ({error.strerror or error}).") from None


def _too_large(size: int, most: int) -> str:
    return f"has {size / MIB:,.0f} MiB, more than the {most / MIB:,.0f} of a real one: it is not read"
