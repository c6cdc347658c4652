"""What can be wrong with an archive."""

import io
import struct
import warnings
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.damages.damage import ESCAPES, Damage

SWELLS = 200 * 2**20  # bytes of a member that swells
PLACES = (
    "/etc/x/",
    "../../x/",
    "a/../../b/",
    "..\\x\\",
    "C:/x/",
    "/",
    "//x/",
    "./",
    f"{ESCAPES}/",
    "x/result.json/",
)


def pack(home: Path, out: Path) -> Path:
    """The folder as it is, in an archive: what zoo.archive itself would leave out, too."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(home.rglob("*")):
            if path.is_file() and not path.is_symlink():
                file.write(path, str(path.relative_to(home)).encode(errors="replace").decode())
    return out


def of_archives() -> Iterator[Damage]:
    for share in (0, 1, 30, 60, 99):
        yield Damage(f"zip:cut_to_{share}", partial(_cut, share=share / 100), packed=True)
    for bit in range(84, 8000, 800):
        yield Damage(f"zip:flipped_{bit}", partial(_flip, bit=bit), refused=True, packed=True)
    for share in range(5, 100, 10):
        yield Damage(f"zip:flipped_anywhere_{share}", partial(_flip_any, share=share / 100), packed=True)
    for name in PLACES:
        yield Damage(f"zip:named_{name!r}", partial(_named, name=f"{name}result.json"), packed=True)
    yield Damage("zip:doubled_member", partial(_named, name=None), packed=True)
    yield Damage("zip:swells", partial(_swell, claims=None), packed=True)
    yield Damage("zip:swells_behind_a_small_claim", partial(_swell, claims=3000), packed=True)
    yield Damage("zip:a_link", _link_member, packed=True)
    yield Damage("zip:encrypted", partial(_flag, at=8, value=1), packed=True)
    yield Damage("zip:unknown_method", partial(_flag, at=10, value=77), packed=True)
    yield Damage("zip:a_text", lambda path: path.write_text("x"), packed=True)
    yield Damage("zip:hollow", lambda path: path.write_bytes(b"PK\x05\x06" + b"\x00" * 18), packed=True)


def _cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def _flip(path: Path, bit: int) -> None:
    """A bit of the first result.json, inside its compressed bytes."""
    with zipfile.ZipFile(path) as file:
        entry = next(each for each in file.infolist() if each.filename.endswith("/result.json"))
    content = bytearray(path.read_bytes())
    begin = entry.header_offset + 30 + sum(struct.unpack_from("<HH", content, entry.header_offset + 26))
    place = begin + (bit // 8) % entry.compress_size
    content[place] ^= 1 << bit % 8
    path.write_bytes(content)


def _flip_any(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0x10
    path.write_bytes(content)


def _named(path: Path, name: str | None) -> None:
    """A whole record under such a name."""
    with zipfile.ZipFile(path, "a") as file:
        first = next(each for each in file.namelist() if each.endswith("/result.json"))
        info = zipfile.ZipInfo("x")
        info.filename = name or first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name that is there already
            file.writestr(info, file.read(first))


def _swell(path: Path, claims: int | None) -> None:
    """A result.json of zeros, as large as SWELLS; `claims`: what its entry says instead."""
    compressed = zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=9)
    with compressed as file, file.open("swollen/result.json", "w") as member:
        for _ in range(SWELLS // 2**20):
            member.write(bytes(2**20))
    if claims is not None:
        content = path.read_bytes()
        path.write_bytes(content.replace(struct.pack("<I", SWELLS), struct.pack("<I", claims)))


def _link_member(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as file:
        info = zipfile.ZipInfo("linked/result.json")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        file.writestr(info, "../../secret")


def _flag(path: Path, at: int, value: int) -> None:
    """Of the first result.json, in the directory at the archive's end."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as file:
        begin, names = file.start_dir, file.namelist()
    for name in names:
        if name.endswith("/result.json"):
            struct.pack_into("<H", content, begin + at, value)
            break
        begin += 46 + sum(struct.unpack_from("<HHH", content, begin + 28))
    path.write_bytes(content)
