"""The notebook runs on a small folder of records, is stored without outputs, and agrees with its .py twin."""

from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

import analysis
from tests.analysis import fake

NOTEBOOK = Path(analysis.__file__).parent / "notebooks" / "pareto.ipynb"


def test_runs_and_shows_three_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_RESULTS", str(fake.write(tmp_path, seeds=1)))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(NOTEBOOK.parent))
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    assert "**51 cells**" in str(outputs)


def test_is_stored_without_outputs_and_equals_its_twin() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not [
        cell for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)
    ]
    twin = jupytext.read(NOTEBOOK.with_suffix(".py"))
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in twin.cells]
