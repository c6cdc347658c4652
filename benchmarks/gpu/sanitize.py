"""Every kernel's smallest case under compute-sanitizer: python -m benchmarks.gpu.sanitize

An access beyond a tensor that reads a neighbour is no error to a card, and may give right numbers.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

TOOL = "compute-sanitizer"
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
ALL = "from zoo.bench.provable import prove_all; print(*prove_all({!r}, small=True), sep='\\n')"
WRONG = 9  # the exit code of a case that it found wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.sanitize", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device = parser.parse_args().device
    tool = shutil.which(TOOL, path=PLACES)
    if tool is None and device == "cuda":
        print(f"{TOOL} is not here: nothing was looked at.  It comes with CUDA's toolkit.")
        return 0
    watched = [tool, "--target-processes", "all", "--error-exitcode", str(WRONG)] if tool else []
    with tempfile.TemporaryDirectory() as cache:  # what is this slow is no verdict
        words = [*watched, sys.executable, "-c", ALL.format(device)]
        return subprocess.run(words, env=os.environ | {"XDG_CACHE_HOME": cache}).returncode


if __name__ == "__main__":
    sys.exit(main())
