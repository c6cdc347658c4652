"""Made-up results by the thousand: those of `tests.analysis.fake`, again and again under other names."""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tests.analysis import fake
from zoo.results import table

LABELS = 4  # copies of a mixer; further ones are wider


def records(cells: int) -> Iterator[dict[str, Any]]:
    """Yield so many different cells: each copy of the fake ones is another mixer or another width."""
    originals = fake.records()
    forever = enumerate(cycle(originals))
    return (_copy(of, i // len(originals)) for i, of in islice(forever, cells))


def write(folder: Path, cells: int) -> Path:
    """Write a results folder whose records and files are as large as real ones."""
    for record in records(cells):
        fake.put(folder, record, {"config.yaml": _config(record), "metrics.csv": _metrics(record)})
    return folder


def _copy(of: dict[str, Any], copy: int) -> dict[str, Any]:
    kind, wider = copy % LABELS, copy // LABELS
    scale = 1 + 0.37 * wider + 0.05 * kind
    sizes = {name: of[name] and int(scale * of[name]) for name in table.KEYS if name.startswith("state_")}
    d_model = of["d_model"] + wider
    return of | sizes | {
        "run_id": f"{of['run_id']}-{copy}", "point": f"{of['point']}-{copy}",
        "mixer": f"{of['mixer']}_{kind}", "label": f"{of['label']} {kind}",
        "d_model": d_model, "state_seq_len": of["state_seq_len"],
        "mixer_settings": of["mixer_settings"] | {"d_model": d_model},
        "overrides": [f"mixer={of['mixer']}", f"d_model={d_model}", f"lr={of['lr']}", f"seed={of['seed']}"],
        "git_revision": "0" * 40, "git_clean": True,
    }  # fmt: skip


def _config(record: dict[str, Any]) -> str:
    settings = [f"  setting_{i}: {i}\n" for i in range(100)]
    mixer = f"mixer:\n{''.join(settings)}"
    return f"{mixer}d_model: {record['d_model']}\nlr: {record['lr']}\nresults: /somewhere\n"


def _metrics(record: dict[str, Any]) -> str:
    lines = ["step,split,slice,metric,value"]
    scored = [entry for entry in record["slices"] if entry["split"] == "valid"]
    for step in range(20, record["steps"] + 1, 20):
        for entry in scored:
            value = (entry["accuracy"] or 0.0) * step / record["steps"]
            lines.append(f'{step},valid,"{table.slice_name(entry["slice"])}",accuracy,{value}')
    return "\n".join(lines) + "\n"
