"""python -m analysis.report RESULTS [--out FILE]: one HTML file with everything to explore."""

import argparse
import sys
from pathlib import Path

from analysis.report.page import report

MOST = 20  # problems that are printed; the page has all


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    path = options.out or _beside(options.results)
    try:
        text, found = report(options.results)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for problem in found.problems[:MOST]:
        print(f"left out: {problem.where}: {problem.why}", file=sys.stderr)
    if len(found.problems) > MOST:
        print(f"left out: {len(found.problems) - MOST} more, which the page lists", file=sys.stderr)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB, {len(found.records)} records)")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.report",
        description="One HTML file with the frontier and all that is behind it; needs no network.",
    )
    parser.add_argument("results", type=Path, help="the folder that zoo.run wrote to, or an archive of one")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="(default: RESULTS/report.html; beside an archive)"
    )
    return parser


def _beside(results: Path) -> Path:
    return results / "report.html" if results.is_dir() else results.with_suffix(".html")


if __name__ == "__main__":
    sys.exit(main())
