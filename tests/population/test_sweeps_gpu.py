"""A population as `zoo.run` trains it on a card: pytest -m gpu."""

from pathlib import Path
from typing import Any

import pytest

from tests.kernels.agreement import ON_A_GPU, QUIET
from tests.population.test_sweeps import cells, quiet
from zoo.launch.grouping import Group
from zoo.launch.run_population import run_population
from zoo.results import store

pytestmark = [*ON_A_GPU, QUIET]


@pytest.mark.parametrize("changes", [{}, {"population": "auto"}, {"mixer": "gated_deltanet"}], ids=str)
def test_cells_on_a_card_train_as_one_in_a_recorded_step(tmp_path: Path, changes: dict[str, Any]):
    group = cells(tmp_path, trainer="gpu", trainer__precision="32-true", **changes)
    apart = run_population(Group(tuple(group)), quiet)
    if apart is not None and changes.get("population") == "auto":
        assert apart.why.startswith("a step takes"), "it is parted for its speed alone"
        return
    assert apart is None, apart and apart.why
    for cell in group:
        record = store.read(cell.folder)
        assert (record["population"]["size"], record["step_form"]) == (3, "graph")
        assert record["status"] == "ok"
