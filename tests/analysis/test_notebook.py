"""Every notebook runs and shows its pictures, and is stored with its outputs."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient

import analysis
from tests.analysis import fake

pytestmark = pytest.mark.records
HOME = Path(analysis.__file__).parent / "notebooks"
NOTEBOOKS = sorted(HOME.glob("*.ipynb"))
named = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
# notebook -> how many pictures it shows (one less where there is one learning rate), and words of its outputs
SHOWN = {
    "add_your_own_mixer": (1, ["of 19 laws", "keeps 19 of 19 laws", "Fading memory"]),
    "add_your_own_task": (1, ["keeps 12 of 13 laws", "keeps 13 of 13 laws", "accuracy on"]),
    "anatomy_of_a_state": (3, ["32 of 32 scalars are alive", "40 of 48 scalars are alive"]),
    "pareto": (4, ["**51 cells**", "frontier_share", "[]"]),
}
SHORTER = {  # shorter trainings: no number of theirs is checked
    "{train_examples: 4800,": "{train_examples: 64,",
    "num_examples: 9600": "num_examples: 64",
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """One kernel for all notebooks, which shares its imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_RESULTS", str(fake.write(tmp_path_factory.mktemp("results"), seeds=1)))
        manager, client = start_new_kernel(kernel_name="python3", cwd=str(HOME))
    client.stop_channels()
    yield manager
    manager.shutdown_kernel(now=True)


@named
def test_a_notebook_runs_and_shows_its_pictures_and_words(notebook: Path, kernel: KernelManager):
    opened = nbformat.read(notebook, as_version=4)
    for cell in opened.cells:
        for long, short in SHORTER.items():
            cell.source = cell.source.replace(long, short)
    opened.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # no name of another notebook
    client = NotebookClient(opened, timeout=600, km=kernel)
    try:
        client.execute(cleanup_kc=False)
    finally:
        client.kc.stop_channels()
    outputs = [output for cell in opened.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures, words = SHOWN[notebook.stem]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == pictures
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert [word for word in words if word not in str(outputs)] == []


@named
def test_a_notebook_is_stored_with_its_outputs(notebook: Path):
    opened = nbformat.read(notebook, as_version=4)
    code = [cell for cell in opened.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= SHOWN[notebook.stem][0] - 1
    assert not [output for output in outputs if output.output_type == "error"]
    shown = [output.get("data", output) for output in outputs]
    texts = str([value for part in shown for kind, value in part.items() if kind != "image/png"])
    assert "/home/" not in texts and str(HOME.parent.parent) not in texts, "a path of the machine that ran it"


def test_every_notebook_is_tested():
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
