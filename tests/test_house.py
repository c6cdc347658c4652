"""The rooms of the house and their floors: an import goes down, never up, and never in a circle.

Read from the source by `ast`, so an import inside a function counts as one at the top.
"""

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.command import ROOT

# The lowest floor first.  A room may import what stands on the floors below it, and its own modules.
FLOORS = (
    ("zoo.common",),
    ("zoo.config", "zoo.kernels", "zoo.__main__", "analysis"),
    ("zoo.results", "zoo.tasks", "zoo.mixers"),
    ("zoo.blocks", "zoo.status", "analysis.records", "analysis.output"),
    ("zoo.model", "analysis.statistics"),
    ("zoo.evaluation", "analysis.drawing"),
    ("analysis.state_bits", "analysis.expected", "analysis.claims"),
    ("zoo.training", "analysis.published", "analysis.pareto", "analysis.report"),
    ("zoo.launch", "zoo.bench", "analysis.figures"),
    ("zoo.run", "zoo.plan", "zoo.evaluate", "hydra_plugins", "analysis.recall_gap"),
    ("analysis.quotes", "analysis.atlas", "zoo"),  # zoo/__init__.py: it hands on what stands below
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def _modules(root: Path) -> dict[str, Path]:
    """Dotted name -> file, of all that is no test."""
    found = {}
    for top in ("zoo", "analysis", "hydra_plugins"):
        for path in (root / top).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of ours that a file names in an import, or to `import_module`, wherever it stands."""
    found: set[str] = set()
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            inner = {f"{module}.{alias.name}" for alias in node.names}
            found |= inner & modules.keys() or {module}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    return found & modules.keys()


def _room(module: str) -> str:
    return ".".join(module.split(".")[: 1 if module.startswith("hydra_plugins") else 2])


def _upward(imports: dict[str, set[str]]) -> list[str]:
    """Every import that does not go down, in words."""
    return [
        f"{module} (floor {FLOOR[_room(module)]}) imports {other} (floor {FLOOR[_room(other)]})"
        for module, others in sorted(imports.items())
        for other in sorted(others)
        if _room(module) != _room(other) and FLOOR[_room(module)] <= FLOOR[_room(other)]
    ]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    modules = _modules(ROOT)
    return {name: _imported(path, modules) - {name} for name, path in modules.items()}


def test_every_module_has_a_room(imports: dict[str, set[str]]) -> None:
    homeless = {_room(module) for module in imports} - FLOOR.keys()
    assert not homeless, f"give these a floor in FLOORS: {sorted(homeless)}"


def test_analysis_imports_itself_relatively(imports: dict[str, set[str]]) -> None:
    """So the same files are `analysis` in a checkout and `zoo.analysis` in a wheel."""
    assert {"analysis.records.where", "analysis.statistics.paired"} <= imports["analysis.claims"]
    absolute = re.compile(r"^\s*(from|import) analysis\b", re.M)
    assert not [path for path in (ROOT / "analysis").rglob("*.py") if absolute.search(path.read_text())]


def test_no_import_runs_up(imports: dict[str, set[str]]) -> None:
    assert not _upward(imports)


def test_an_import_that_runs_up_is_seen() -> None:
    up = _upward({"zoo.mixers.state": {"zoo.model"}, "zoo.model": {"zoo.mixers.state"}})
    assert up == ["zoo.mixers.state (floor 2) imports zoo.model (floor 4)"]


def test_no_circle_within_a_room(imports: dict[str, set[str]]) -> None:
    rooms: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for module, others in imports.items():
        rooms[_room(module)][module] = {other for other in others if _room(other) == _room(module)}
    for graph in rooms.values():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as circle:
            pytest.fail(f"a circle: {circle.args[1]}")
