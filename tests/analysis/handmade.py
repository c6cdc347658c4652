"""Points and their seeds, written down by hand: [(series, state, [accuracy of seed 0, 1, ...]), ...]."""

import pandas as pd

Rows = list[tuple[str, float, list[float]]]


def points(rows: Rows) -> pd.DataFrame:
    """Return them as `analysis.statistics.points.points` would."""
    frame = pd.DataFrame(
        {"point": f"p{i}", "series": series, "state_resident": state}
        | {"accuracy": sum(seeds) / len(seeds), "seeds": len(seeds)}
        for i, (series, state, seeds) in enumerate(rows)
    )
    return frame.assign(causal=True, exact_decode=True, diverged=0)


def scores(rows: Rows) -> pd.DataFrame:
    """Return them as `analysis.statistics.uncertainty.at_chosen` would."""
    return pd.DataFrame(
        {"point": f"p{i}", "seed": seed, "accuracy": accuracy}
        for i, (_, _, seeds) in enumerate(rows)
        for seed, accuracy in enumerate(seeds)
    )


def both(rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return their points and scores, the first arguments of most statistics."""
    return points(rows), scores(rows)
