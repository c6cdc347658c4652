"""Pack finished cells into one file: `python -m zoo archive RESULTS` makes RESULTS.zip.

  python -m zoo archive results/mini_based_fig2 --out docs/results/mini_based_fig2.zip

It holds each cell's config.yaml, env.json, metrics.csv and result.json, about 3 kB a cell, the results of its
evaluations (evaluations/), and with --weights the weights that were kept.  Checkpoints, failed and unfinished
cells are left out.  `zoo.results.load` and every command of analysis/ read it like the folder.
The same cells make the same bytes.
Exit code: 0; 2 when nothing was written; 3 when it was, without records or files that cannot be read.
"""

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.common.terminal import USAGE, command, command_parser, counted, say
from zoo.results import evaluations
from zoo.results.atomic import replaced_by
from zoo.results.home import FILES, WEIGHTS, Home, read_bytes, shown
from zoo.results.reading import Reading, configured, left_out

WHEN = (1980, 1, 1, 0, 0, 0)  # the format's earliest date, for all files, so that the bytes are the same


def main(argv: Sequence[str] | None = None) -> int:
    """Write the archive; return 0, 3 where something was left out, or 2 with a line on what is wrong."""
    parser = command_parser("zoo archive", __doc__)
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder that zoo.run wrote to")
    parser.add_argument("--out", type=Path, metavar="NAME.zip", help="default: RESULTS.zip")
    parser.add_argument("--weights", action="store_true", help="with weights.safetensors, for zoo.load")
    args = parser.parse_intermixed_args(argv)
    place = Path(os.path.abspath(args.results))  # links are not followed: a link may lead to itself
    if not args.out and (not place.name or place.suffix == ".zip"):
        what = "is an archive; a new one needs a name" if place.name else "has no name for an archive"
        return say(f"{shown(place)} {what}: give one with --out NAME.zip.", USAGE)
    out: Path = args.out or place.with_name(f"{place.name}.zip")
    try:
        count, reading = archive(args.results, out, args.weights)
    except ValueError as error:
        return say(str(error), USAGE)
    except OSError as error:
        return say(f"cannot write {shown(out)} ({error.strerror}): give another place with --out.", USAGE)
    print(f"{counted(count, 'cell')}: {shown(out)}")
    return left_out(reading.wrong, reading.notes)


def archive(home: Path, out: Path, weights: bool = False) -> tuple[int, Reading]:
    """Write the finished cells of a folder to `out`, in one move; return their number and their Reading.

    A file that is missing, damaged, of another cell or a link (to anywhere) is left out, but its cell is not.
    ValueError: no such folder, or no record in it that can be read.
    """
    if out.suffix != ".zip":
        raise ValueError(f"--out (={shown(out)}) must end in .zip.")
    reading = Reading(home)
    found = {record["run_id"]: (folder, record) for folder, record in reading}
    if not found:
        raise ValueError(reading.nothing())
    out.parent.mkdir(parents=True, exist_ok=True)
    with replaced_by(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        for run_id, (folder, record) in sorted(found.items()):
            for name in _names(folder, weights):
                info = zipfile.ZipInfo(f"{run_id}/{name}", WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                try:
                    content = _checked(folder, name, record)
                except ValueError as error:
                    reading.wrong.append(str(error))
                else:
                    file.writestr(info, content, compresslevel=9)
    return len(found), reading


def _checked(folder: Home, name: str, record: dict[str, Any]) -> bytes:
    """Read a file of a cell.  ValueError, one line: it cannot be read, or is not of the cell's record."""
    if name == WEIGHTS:
        from zoo.results import weights  # imports torch, which takes seconds

        return weights.checked(folder, record.get("weights"), linked=False)
    content = read_bytes(folder, name, linked=False)
    if name == "config.yaml":
        configured(folder, record)
    return content


def _names(folder: Home, weights: bool) -> list[str]:
    """Return the names of the files of a cell that an archive holds."""
    weights_file = [WEIGHTS] if weights and (folder / WEIGHTS).exists() else []
    answers = [f"{evaluations.FOLDER}/{name}" for name in evaluations.names(folder)]
    return [*FILES, *weights_file, *answers]


if __name__ == "__main__":
    command(main)
