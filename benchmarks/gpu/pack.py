"""What a run leaves, without its records and checkpoints, in one file."""

import zipfile

from benchmarks.gpu.commands import Place

KEPT = (".csv", ".json", ".md", ".log", ".xml", ".png", ".zip")
PACKED = "tables.zip"
RECORD = "result.json"  # a folder that has one is a record's, and is in the archive of records


def pack(place: Place) -> None:
    with zipfile.ZipFile(place.out / PACKED, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(place.out.rglob("*")):
            wanted = path.suffix in KEPT and path.name != PACKED
            if wanted and not (path.parent / RECORD).exists():
                file.write(path, path.relative_to(place.out))
