"""zoo.run --help: the groups, and the chosen yamls with their comments."""

import pytest

from tests.registry import composer
from zoo.config.compose import Composer
from zoo.config.help import help_text
from zoo.config.paths import CONF


@pytest.fixture(scope="module")
def ours() -> Composer:
    return composer()


def test_every_comment_of_the_chosen_yamls_is_there(ours: Composer):
    text = help_text(ours, ["mixer=sliding_window", "optim=zoology", "experiment=smoke", "lr=0.1,0.2"], 80)
    for name in ("config", "mixer/sliding_window", "optim/zoology", "task/mqar", "experiment/smoke"):
        for line in (CONF / f"{name}.yaml").read_text().partition("\nhydra:")[0].splitlines():
            assert not line[:1].isalpha() or line.startswith(("defaults", "about")) or line in text
    lines = text.partition("== Keys: key=value ==\n")[2].splitlines()
    assert lines[lines.index("# mixer=sliding_window") + 1] == "mixer:" and "# experiment=smoke" in lines
    assert "max_epochs: 1" in text and "about:" not in text and "defaults:" not in text


def test_what_names_nothing_is_said(ours: Composer):
    with pytest.raises(ValueError, match=r"unknown key d_modl; did you mean d_model\?"):
        help_text(ours, ["d_modl=3"], 80)
