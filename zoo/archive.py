"""Finished cells in one file: `python -m zoo.archive RESULTS` makes RESULTS.zip.

  python -m zoo.archive results/mini_based_fig2 --out docs/results/mini_based_fig2.zip

It holds each cell's config.yaml, env.json, metrics.csv and result.json, about 3 kB a cell; checkpoints,
failed and unfinished cells stay behind.  `zoo.results.load` and every command of analysis/ read it like the
folder.  The same cells make the same bytes.
"""

import sys
import zipfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from zoo import results
from zoo.command import OK, USAGE, say
from zoo.disk import beside

KEPT = ("config.yaml", "env.json", "metrics.csv", "result.json")
WHEN = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows: no date, so the same bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Write the archive; 0, or 2 with a line on what is wrong."""
    parser = ArgumentParser(
        prog="python -m zoo.archive", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder that zoo.run wrote to")
    parser.add_argument("--out", type=Path, metavar="NAME.zip", help="default: RESULTS.zip")
    args = parser.parse_args(argv)
    out: Path = args.out or args.results.resolve().with_suffix(".zip")
    try:
        print(f"{archive(args.results, out)} cells: {out}")
    except ValueError as error:
        return say(str(error), USAGE)
    except OSError as error:
        return say(f"cannot write {out} ({error.strerror}): give another place with --out.", USAGE)
    return OK


def archive(home: Path, out: Path) -> int:
    """Write the finished cells of a folder to `out`, in one move; how many they are.

    ValueError: no such folder, nothing finished in it, a damaged or foreign record.
    """
    if out.suffix != ".zip":
        raise ValueError(f"--out (={out}) must end in .zip.")
    folders = [home / record["run_id"] for record in results.records(home)]
    lost = [folder / name for folder in folders for name in KEPT if not (folder / name).is_file()]
    if lost:
        raise ValueError(
            f"{lost[0]} is missing beside a result.json: delete its folder and run the cell again."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        for folder in folders:
            for name in KEPT:
                info = zipfile.ZipInfo(f"{folder.name}/{name}", WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(info, (folder / name).read_bytes(), compresslevel=9)
    return len(folders)


if __name__ == "__main__":
    sys.exit(main())
