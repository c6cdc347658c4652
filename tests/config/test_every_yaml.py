"""Every yaml in conf/ makes a cell that could train: nothing shipped is stale."""

import importlib.util

import pytest

from tests.registry import compose
from zoo.config.paths import CONF
from zoo.training.check import check

pytestmark = pytest.mark.xdist_group("every mixer composed")  # with one composer
OTHERS = ("evaluation", "hydra")  # no parts of a cell; tests/evaluation/ asks each question
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in OTHERS)
CHOICES = [f"{group}={path.stem}" for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]
NEEDS = {"logger=tensorboard": "tensorboard", "logger=wandb": "wandb", "logger=mlflow": "mlflow"}


@pytest.mark.parametrize("choice", CHOICES)
def test_composes_and_checks(choice: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_MODE", "offline")  # no account here
    cell = compose([choice])
    package = NEEDS.get(choice)
    if package and importlib.util.find_spec(package) is None:
        with pytest.raises(ValueError, match=r"pip install"):
            check(cell)
    else:
        check(cell)
