"""What about.state may say; that it is true is a law (test_mixer_laws, test_random_settings)."""

import pytest

from zoo.mixers.cases import Case, build, mixer_yaml
from zoo.mixers.size_formula import evaluate

MIXER = build(Case("sliding_window", {"window": 5}))


@pytest.mark.parametrize(
    ("formula", "size"),
    [
        ("2 * qkv.head_dim * min(seq_len, window - 1)", 2 * 16 * 4),
        ("seq_len // window + seq_len % window - max(window, 2 ** 3)", 20 + 2 - 8),
        ("d_model if window == 5 else 0", 16),
        ("popcount(seq_len)", 4),
        ("(1 if window < 5 else 2) + (1 if window > 4 else 2)", 3),
    ],
)
def test_numbers_names_and_arithmetic(formula: str, size: int):
    assert evaluate(formula, MIXER, 102) == size


@pytest.mark.parametrize("formula", ["abs(window)", "[window]", "window / 2", "not window"])
def test_anything_else_is_refused(formula: str):
    with pytest.raises(ValueError, match=r"about\.state \(=.*may not hold"):
        evaluate(formula, MIXER, 1)


def test_a_formula_for_another_mixer_is_an_error():
    with pytest.raises(AttributeError, match="feature_dim"):
        evaluate("feature_dim * 2", MIXER, 1)


@pytest.mark.parametrize(
    "case",
    [
        Case("bmojo", {"num_eidetic": 0}),
        Case("moba", {"selection": "prev"}),
        Case("se_attn_capped", {"selection": "prefix"}),
        Case("se_attn_lm", {"summary": "attn_value"}),
        Case("se_attn_no_mem", {"selection": "token"}),
        Case("se_attn_random", {"selection": "first"}),
        Case("ttt_linear", {"expand": 2}),
        Case("ttt_mlp", {"expand": 0}),
    ],
    ids=str,
)
def test_a_setting_that_changes_what_is_kept_is_in_the_formula(case: Case):
    mixer, formula = build(case), mixer_yaml(case.name)["about"]["state"]
    for n in range(1, 50):
        assert evaluate(formula, mixer, n) == mixer.state_size(n).resident, f"after {n}"
