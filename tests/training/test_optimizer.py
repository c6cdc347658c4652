"""The optimizer and the schedule that conf/optim names: torch's, a user's, and those that are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.command import refusal
from tests.registry import compose
from tests.training.tiny import SETTINGS, optim, tiny
from zoo.config.cell import Cell
from zoo.launch.preflight import Validator
from zoo.training.lr_schedule import Schedule, lr_factor
from zoo.training.optimizer import make_optimizer
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack, Unstackable
from zoo.training.step import Stepper
from zoo.training.train import train

HERE = "tests.training.test_optimizer"


class Signs(torch.optim.Optimizer):
    """A user's optimizer: the sign of the gradient, with weight decay."""

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.0, scale: float = 1.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "scale": scale})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.sub_(group["lr"] * group["scale"] * parameter.grad.sign())


class MatricesOnly(Signs):
    """A user's optimizer that refuses a bias."""

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr, weight_decay)
        if any(parameter.ndim < 2 for group in self.param_groups for parameter in group["params"]):
            raise ValueError("matrices only")


class Halving(Schedule):
    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, step: int, total_steps: int) -> float:
        return 0.5 ** (step // self.every)


def cell(*words: str) -> Cell:
    return compose([*(f"{key}={value}" for key, value in SETTINGS.items()), *words])


SGD = ("optim._target_=torch.optim.SGD", "++optim.momentum=0.9")


def test_the_optimizer_gets_its_arguments_groups_and_rate():
    model = nn.Linear(2, 2)
    config = optim(_target_="torch.optim.SGD", momentum=0.9, nesterov=True, weight_decay=0.25)
    groups = make_optimizer(model, config, 0.125).param_groups
    assert [(g["lr"], g["momentum"], g["nesterov"], g["weight_decay"]) for g in groups] == [
        (0.125, 0.9, True, 0.25),
        (0.125, 0.9, True, 0.0),
    ]
    (group, _) = make_optimizer(model, optim(_target_="torch.optim.NAdam"), 1.0).param_groups
    assert group["betas"] == (0.9, 0.999)
    (group, _) = make_optimizer(model, optim(eps=1e-3, betas=[0.5, 0.75]), 1.0).param_groups
    assert (group["eps"], group["betas"], group["fused"]) == (1e-3, (0.5, 0.75), True)
    groups = make_optimizer(model, optim(_target_="torch.optim.Rprop", weight_decay=0.0), 1.0).param_groups
    assert len(groups) == 2 and "weight_decay" not in groups[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SGD, "++optim.momentun=0.9"), "unknown key optim.momentun; did you mean optim.momentum?"),
        (("++optim.max_epoch=1",), "unknown key optim.max_epoch; did you mean optim.max_epochs?"),
        (("++optim.eps=small",), "optim.eps (='small') must be a number"),
        (("optim._target_=torch.optim.SGDD",), "imported: unknown class SGDD; did you mean SGD?"),
        (("optim._target_=shutil.rmtree",), "optim._target_ (=shutil.rmtree) must name an Optimizer"),
        (("+optim.eps=-1",), "cannot be built: ValueError: Invalid epsilon value: -1"),
        (("optim._target_=torch.nn.Linear",), "optim._target_ (=torch.nn.Linear) is no Optimizer"),
        (("optim._target_=torch.optim.Rprop",), "optim.weight_decay (=0.1) is unknown to torch.optim.Rprop"),
        (("optim._target_=torch.optim.LBFGS", "optim.weight_decay=0"), "needs a closure each step"),
        ((f"optim._target_={HERE}.MatricesOnly",), "cannot be built: ValueError: matrices only"),
        ((f"optim._target_={HERE}.Signs", "++optim.scales=2"), "did you mean optim.scale?"),
        (
            ("optim.schedule=cosin",),
            "optim.schedule (='cosin') must be one of cosine, constant, wsd or a {key",
        ),
        (
            ("optim.schedule={_target_: torch.optim.lr_scheduler.OneCycleLR, max_lr: 0.1}",),
            "optim.schedule (=torch.optim.lr_scheduler.OneCycleLR) cannot be built or asked: ValueError: You",
        ),
        (
            ("optim.schedule={_target_: shutil.rmtree}",),
            "schedule._target_ (=shutil.rmtree) must name a Schedule",
        ),
        (
            (f"optim.schedule={{_target_: {HERE}.Halving}}",),
            "missing 1 required positional argument: 'every'",
        ),
        (
            ("optim.schedule={_target_: torch.optim.lr_scheduler.ExponentialLR, gamma: -1.5}",),
            "must give finite factors of at least 0",
        ),
    ],
)
def test_a_bad_optimizer_or_schedule_is_refused_in_one_line(words: tuple[str, ...], message: str):
    (line,) = Validator().problems(cell(*words))
    assert message in line


@pytest.mark.parametrize(
    "words",
    [
        SGD,
        (f"optim._target_={HERE}.Signs", "++optim.scale=2"),
        (f"optim.schedule={{_target_: {HERE}.Halving, every: 2}}",),
    ],
)
def test_another_optimizer_or_schedule_is_another_cell_and_trains(words: tuple[str, ...], tmp_path: Path):
    changed = cell(*words)
    assert Validator().problems(changed) == []
    assert changed.run_id != tiny().run_id and changed.point != tiny().point
    assert train(changed, tmp_path)["status"] == "ok"


def test_a_schedule_runs_after_the_warm_up():
    config = optim(schedule={"_target_": "torch.optim.lr_scheduler.ExponentialLR", "gamma": 0.5}, warmup=0.2)
    assert [lr_factor(config, step, 10) for step in range(6)] == [0.5, 1.0, 1.0, 0.5, 0.25, 0.125]
    assert lr_factor(config, 2, 10) == 1.0  # asked in any order, as a resumed cell does
    users = optim(schedule={"_target_": f"{HERE}.Halving", "every": 2}, warmup=0.0)
    assert [lr_factor(users, step, 8) for step in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_a_population_of_another_optimizer_is_refused():
    for other in ({"_target_": "torch.optim.SGD"}, {"eps": 1e-3}):
        with pytest.raises(Unstackable, match="has no stacked form"):
            PopulationAdamW(Stack([nn.Linear(2, 2), nn.Linear(2, 2)]), [optim(**other)] * 2)


def test_an_optimizer_that_no_graph_can_record_is_refused():
    model = nn.Linear(2, 2)
    optimizer = make_optimizer(model, replace(optim(), _target_=f"{HERE}.Signs"), 0.1)
    with refusal("trainer.step (=graph) cannot record Signs: use trainer.step=auto"):
        Stepper("graph", model, optimizer, lambda x: model(x).sum(), None)
