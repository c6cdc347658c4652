"""Made-up results in the form of `zoo.results`, shaped like a small MQAR frontier; nothing was measured."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.command import written
from zoo.results import store
from zoo.results import table as results_table

SLICES = [(32, 4), (64, 8), (64, 16), (128, 32)]
LRS = [1e-3, 3e-3, 1e-2]
BEST_LR = {"Mamba": 1e-2, "Hyena": 1e-3}  # 3e-3 for all others


class Point(NamedTuple):
    """skill: 1 solves most slices, 0 few.  window_share: the share of answers in view at the first slice."""

    label: str
    family: str
    mixer: str
    settings: dict[str, Any]
    d_model: int
    resident: int
    skill: float
    touched: int | None = None
    causal: bool = True
    window_share: float = 1.0


TAYLOR, POS_ELU = {"feature_map": "taylor2"}, {"feature_map": "pos_elu"}
POINTS = [
    Point("Attention", "attention", "attention", {"num_heads": 1}, 64, 16512, 3.0),
    Point("Based", "linear", "based", TAYLOR | {"feature_dim": 16}, 64, 10073, 1.7),
    Point("Based", "linear", "based", TAYLOR | {"feature_dim": 8}, 64, 3053, 1.2),
    Point("Based", "linear", "based", TAYLOR | {"feature_dim": 4}, 64, 1103, 0.45),
    Point("Based", "linear", "based", TAYLOR | {"feature_dim": 16}, 32, 5081, 0.5),
    Point("Based", "linear", "based", TAYLOR | {"feature_dim": 8}, 32, 1549, 0.3),
    Point("Linear attention", "linear", "linear_attention", POS_ELU, 64, 4352, 0.5),
    Point("Linear attention", "linear", "linear_attention", POS_ELU, 32, 1152, 0.0),
    Point("Sliding window", "attention", "sliding_window", {"window": 64}, 64, 8128, 1.5, window_share=0.97),
    Point("Sliding window", "attention", "sliding_window", {"window": 32}, 64, 4032, 0.6, window_share=0.8),
    Point("Sliding window", "attention", "sliding_window", {"window": 16}, 64, 1984, 0.2, window_share=0.4),
    Point("Sliding window", "attention", "sliding_window", {"window": 8}, 64, 960, 0.0, window_share=0.2),
    Point("Mamba", "ssm", "mamba", {"d_state": 8}, 64, 2816, 0.5),
    Point("Mamba", "ssm", "mamba", {"d_state": 16}, 64, 4864, 0.8),
    Point("Hyena", "convolution", "hyena", {}, 64, 16600, 0.1),
    Point("SE-Attn", "sparse", "se_attn", {"selection": "prefix"}, 64, 17400, 1.4, touched=2300),
    Point("SE-Attn", "sparse", "se_attn", {"selection": "chunk"}, 64, 17000, 1.8, touched=2300, causal=False),
]


def records(seeds: int = 3) -> list[dict[str, Any]]:
    """Return result.json of every cell: each point at each learning rate with each seed."""
    rng = np.random.default_rng(0)
    cells = [(point, lr, seed) for point in POINTS for lr in LRS for seed in range(seeds)]
    return [_record(f"{c[0].mixer}-{i:04d}", *c, rng.normal(0, 0.05)) for i, c in enumerate(cells)]


def write(folder: Path, seeds: int = 3, of: list[dict[str, Any]] | None = None) -> Path:
    """Write a results folder of these records, or those given, each with a short training curve."""
    for record in of or records(seeds):
        put(folder, record, {"metrics.csv": _curve(record).to_csv(index=False)})
    return folder


def put(home: Path, record: dict[str, Any], files: dict[str, str] | None = None) -> Path:
    """Write a cell's folder: its record, without the sync to disk of `store.finish`, and other files."""
    folder = home / record["run_id"]
    texts = {"result.json": json.dumps({"schema": store.SCHEMA} | record)} | (files or {})
    for name, text in texts.items():
        written(folder / name, text)
    return folder


def change(folder: Path, to: Callable[[dict[str, Any]], object] | None = None, **keys: Any) -> None:
    """Set keys of the record that lies in `folder`, or do something else to it."""
    record = json.loads((folder / "result.json").read_text()) | keys
    if to:
        to(record)
    (folder / "result.json").write_text(json.dumps(record))


def table(seeds: int = 3) -> pd.DataFrame:
    """Return these records as `zoo.results.load` would."""
    return _loaded(seeds).copy()


@cache
def _loaded(seeds: int) -> pd.DataFrame:
    return results_table.table(sorted(records(seeds), key=lambda record: record["run_id"]))


def _record(run_id: str, point: Point, lr: float, seed: int, noise: float) -> dict[str, Any]:
    diverged = _diverges(point, lr, seed)
    skill = point.skill + noise - 0.25 * abs(np.log10(lr / BEST_LR.get(point.label, 3e-3)))
    return dict.fromkeys(results_table.KEYS) | {
        "run_id": run_id, "point": f"{point.mixer}-{point.d_model}-{sorted(point.settings.items())}",
        "status": "diverged" if diverged else "ok", "mixer": point.mixer, "label": point.label,
        "family": point.family, "task": "mqar", "d_model": point.d_model, "n_layers": 2, "seed": seed,
        "lr": lr, "causal": point.causal, "exact_decode": point.causal, "parameters": 40_000,
        "state_paper": None if point.touched else point.resident + 64, "state_resident": point.resident,
        "state_touched": point.touched or point.resident, "state_aux_ints": 0, "state_seq_len": 128,
        "state_mixer_resident": point.resident,
        "steps": 120 if diverged else 600, "diverged_step": 120 if diverged else None, "wall_seconds": 20.0,
        "precision": "32",
        "examples_per_second": 6000.0, "peak_memory_bytes": 1 << 28, "accelerator": "cpu",
        "decode_tokens_per_second": 2e8 / point.resident if point.causal else None, "operations": 1e9,
        "mixer_settings": {"d_model": point.d_model} | point.settings,
        "task_settings": {"vocab_size": 128, "filler": "safe", "power_a": 0.01},
        "groups": [] if diverged else _distances(skill),
        "slices": [
            _score(point, split, place, skill, diverged)
            for split in ("valid", "test")
            for place in range(len(SLICES))
        ],
    }  # fmt: skip


def _score(point: Point, split: str, place: int, skill: float, diverged: bool) -> dict[str, Any]:
    easier = 0.004 if split == "valid" else 0.0
    coverage = 1.0 if point.window_share == 1 else point.window_share * (1 - place / 5)
    accuracy = min(coverage, 1 / (1 + np.exp(-5 * (skill + easier - 0.12 - 0.3 * place))))
    seq_len, num_kv_pairs = SLICES[place]
    scores = {"accuracy": accuracy, "row_accuracy": accuracy, "exact_rows": accuracy**4, "loss": 1 - accuracy}
    entry = {"split": split, "slice": {"seq_len": seq_len, "num_kv_pairs": num_kv_pairs}}
    entry |= {"rows": 256, "answers": 256 * num_kv_pairs, "coverage": coverage}
    return entry | {name: None if diverged else score for name, score in scores.items()}


def counted(seq_len: int, num_kv_pairs: int, distance: int, right: int) -> dict[str, Any]:
    """Return an entry of a record's groups: how many of 100 answers at a distance are right."""
    name = f"seq_len={seq_len},num_kv_pairs={num_kv_pairs}"
    of = {"split": "test", "slice": name, "group": "distance", "value": distance}
    return of | {"answers": 100, "right": right}


def _distances(skill: float) -> list[dict[str, Any]]:
    """Return counts by distance: answers are harder the farther back their key stands."""
    return [
        counted(seq_len, num_kv_pairs, 2**i, right=int(100 / (1 + np.exp(i - 4 - 2 * skill))))
        for seq_len, num_kv_pairs in SLICES
        for i in range(2, int(np.log2(seq_len)) + 1)
    ]


def _diverges(point: Point, lr: float, seed: int) -> bool:
    if point.label == "Hyena" or (point.label == "Linear attention" and point.d_model == 32):
        return lr == 1e-2 and seed < 2
    return point.settings.get("d_state") == 16 and seed == 0


def _curve(record: dict[str, Any]) -> pd.DataFrame:
    final = record["slices"][0]["accuracy"] or 0.0
    steps = range(100, 601, 100)
    rows = [(step, "valid", "seq_len=32,num_kv_pairs=4", "accuracy", final * step / 600) for step in steps]
    return pd.DataFrame(rows, columns=["step", "split", "slice", "metric", "value"])
