"""An archive that unpacks to far more than it claims, or than records do, is not unpacked."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from zoo.results.home import opened, text


def test_an_entry_that_claims_less_than_it_holds_stays_packed(tmp_path: Path):
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


def test_an_archive_that_inflates_more_than_records_do_is_not_read(tmp_path: Path):
    path = tmp_path / "inflated.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(90):
            file.writestr(f"a-{i}/result.json", b" " * (3 * 2**20))
    with pytest.raises(ValueError, match="more than 50 times as much: no records do; it is not read"):
        opened(path)
