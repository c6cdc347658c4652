"""Model totals as published sweeps count them, built from the yaml like a run builds them."""

from hydra.utils import instantiate
from omegaconf import OmegaConf

from zoo.config.paths import CONF
from zoo.mixers.base import Mixer
from zoo.state import StateSize, total


def from_yaml(name: str, d_model: int, **changes: object) -> Mixer:
    """The mixer as conf/mixer/`name`.yaml says, at a width and with some settings changed."""
    node = OmegaConf.create(
        {
            "d_model": d_model,
            "n_layers": 2,
            "seed": 0,
            "mixer": OmegaConf.load(CONF / "mixer" / f"{name}.yaml"),
        }
    )
    config = OmegaConf.to_container(node.mixer, resolve=True)
    assert set(changes) <= set(config)
    return instantiate({k: v for k, v in (config | changes).items() if k != "about"}, _convert_="all")


def two_layers(name: str, d_model: int, seq_len: int, **changes: object) -> StateSize:
    return total(from_yaml(name, d_model, **changes).state_size(seq_len) for _ in range(2))
