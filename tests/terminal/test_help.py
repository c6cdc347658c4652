"""zoo.run --help: the comments of the yamls stand beside the keys, at any width."""

import pytest

from tests.registry import composer
from zoo.config.compose import Composer
from zoo.config.help import help_text
from zoo.config.paths import CONF


@pytest.fixture(scope="module")
def ours() -> Composer:
    return composer()


def keys(text: str) -> list[str]:
    return text.partition("== Keys: key=value ==\n")[2].splitlines()


def joined(text: str) -> str:
    """Without the breaks and the columns of comments."""
    return " ".join(text.replace("#", " ").split())


@pytest.mark.parametrize("width", [80, 160])
def test_every_comment_of_the_chosen_yamls_is_there(ours: Composer, width: int):
    text = help_text(ours, ["mixer=sliding_window", "optim=zoology"], width)
    lines = [line for name in ("config", "mixer/sliding_window", "optim/zoology", "task/mqar") for line in
             (CONF / f"{name}.yaml").read_text().partition("\nhydra:")[0].splitlines()]  # fmt: skip
    beside = [
        line.split("# ", 1)[1] for line in lines if "# " in line and not line.startswith(("#", " ", "about"))
    ]
    assert len(beside) > 20
    assert [said for said in beside if joined(said) not in joined(text)] == []
    assert max(map(len, keys(text))) <= width


def test_keys_are_as_the_words_leave_them(ours: Composer):
    text = help_text(
        ours,
        ["mixer=mamba", "d_model=128", "experiment=smoke", "lr=0.1,0.2", "hydra.launcher.n_workers=1"],
        160,
    )
    lines = keys(text)
    assert lines[0].split("  ")[0] == "mixer:" and lines[0].endswith("# mixer=mamba")
    (width,) = [line for line in lines if line.startswith("d_model:")]
    assert " ".join(width.split()) == "d_model: 128 # width of the residual stream"
    assert "  max_epochs: 1" in lines and "lr: 0.003" in joined(text)
    assert "about:" not in text


def test_what_names_nothing_is_said(ours: Composer):
    with pytest.raises(ValueError, match=r"unknown key d_modl; did you mean d_model\?"):
        help_text(ours, ["d_modl=3"], 80)
