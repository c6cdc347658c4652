"""Points and their seeds, written down by hand: [(series, state, [accuracy of seed 0, 1, ...]), ...]."""

import pandas as pd

Rows = list[tuple[str, float, list[float]]]


def points(rows: Rows) -> pd.DataFrame:
    """What `analysis.statistics.points.points` says of them."""
    frame = pd.DataFrame(
        {"point": f"p{i}", "series": series, "state_resident": state}
        | {"accuracy": sum(seeds) / len(seeds), "seeds": len(seeds)}
        for i, (series, state, seeds) in enumerate(rows)
    )
    return frame.assign(causal=True, exact_decode=True, diverged=0)


def scores(rows: Rows) -> pd.DataFrame:
    """What `analysis.statistics.uncertainty.at_chosen` says of them."""
    return pd.DataFrame(
        {"point": f"p{i}", "seed": seed, "accuracy": accuracy}
        for i, (_, _, seeds) in enumerate(rows)
        for seed, accuracy in enumerate(seeds)
    )


def study(rows: list[dict]) -> pd.DataFrame:
    """What `zoo.results.load` says of cells of one mixer, which score the same on both splits.

    rows: point, state_resident, num_kv_pairs, accuracy, and whatever else differs.
    """
    usual = {
        "mixer": "m", "label": "M", "family": "linear", "task": "mqar", "d_model": 64, "n_layers": 2,
        "lr": 0.01, "status": "ok", "causal": True, "exact_decode": True, "coverage": 1.0, "seed": 0,
        "state_seq_len": 64, "seq_len": 64, "mixer.d_model": 64, "precision": "32-true",
    }  # fmt: skip
    return pd.DataFrame(
        {"run_id": f"{row['point']}-{row['lr']}-{row['seed']}", "split": split}
        | row
        | {"slice": f"seq_len={row['seq_len']},num_kv_pairs={row['num_kv_pairs']}"}
        for row in (usual | row for row in rows)
        for split in ("valid", "test")
    )
