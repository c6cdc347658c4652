"""Read what Linux reports on the processor."""

from pathlib import Path


def facts() -> dict[str, str]:
    """Return the first processor's facts in /proc/cpuinfo, key -> value; {} without that file."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
