"""One SLURM for all tests here; where none can be started, they are skipped with the reason."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Zoo
from tests.slurm.cluster import Cluster, why_not


@pytest.hookimpl(tryfirst=True)  # as that of tests/conftest.py, which leaves a group alone
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            item.add_marker(pytest.mark.xdist_group("slurm"))
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def cluster(session_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for key, value in session_cluster.environment.items():
        monkeypatch.setenv(key, value)
    assert "ZOO_TOYS_HEALED" not in os.environ
    return session_cluster


@pytest.fixture
def zoo(zoo: Zoo, cluster: Cluster) -> Iterator[Zoo]:
    yield zoo
    cluster.ask("scancel", "--user=root")
