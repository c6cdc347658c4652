"""The published points and claims, and ours compared with them on points worked out by hand."""

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.published import beside, ordering, read, words
from analysis.published.picture import dressed
from analysis.records.where import where
from analysis.statistics import scored
from tests.analysis import study
from tests.command import ROOT
from tests.registry import composer
from zoo.model import outline

TABLES = ("based_fig2", "zoology_fig2")
FIGURES = ("based_fig3", "based_fig8", "se_attn_ablations")


@pytest.mark.parametrize("name", TABLES)
def test_every_published_point_is_a_mixer_of_the_zoo_with_its_settings(name: str) -> None:
    published = read.points(name)
    assert published["accuracy"].between(0, 1).all() and (published["reading_error"] > 0).all()
    size = "state" if "state" in published else "d_model"
    assert not published.duplicated(["source", "mixer", "slice", size, "accuracy"]).any()
    for row in published.to_dict("records"):
        conf = yaml.safe_load((ROOT / "conf" / "mixer" / f"{row['mixer']}.yaml").read_text())
        given = [key for key in read.settings(published) if key != "d_model" and not np.isnan(row[key])]
        assert all(key.removeprefix("mixer.") in conf for key in given), (row["mixer"], given)
        assert (ROOT / "conf" / "task" / f"{row['task']}.yaml").is_file()


def test_published_mixers_are_named_as_their_yamls_name_them() -> None:
    published = read.mixers().set_index("mixer")
    assert set(published.index) == {mixer for name in TABLES for mixer in read.points(name)["mixer"]}
    for mixer, row in published.iterrows():
        about = yaml.safe_load((ROOT / "conf" / "mixer" / f"{mixer}.yaml").read_text())["about"]
        assert (row["series"], row["family"]) == (about["label"], about["family"])


def test_the_resident_state_of_a_published_point_is_that_of_its_model() -> None:
    published = read.points("based_fig2")
    known = published.dropna(subset=["d_model"])
    assert known["resident"].notna().all() and published["resident"].notna().sum() == len(known)
    compose = composer()
    for row in known.to_dict("records"):
        block = "zoology_mamba" if row["mixer"] in ("mamba", "mamba2") else "zoology"
        words = [f"mixer={row['mixer']}", f"block={block}", f"d_model={row['d_model']:.0f}"]
        words += [f"{key}={row[key]:.0f}" for key in read.settings(published)[1:] if not np.isnan(row[key])]
        words += ["model.layers=[base_conv,mixer]"] if row["mixer"] == "rwkv7" else []
        assert outline(compose.cell(words)).state_size(1024).resident == row["resident"], words


def test_every_published_point_is_drawn_even_if_untrained_here() -> None:
    published = read.points("based_fig2")
    ours = scored.means(study.table([study.record("based", 0.5, task="mqar_based", slices=study.SEVEN)]))
    shown = dressed(published, ours)
    assert len(shown) == len(published)
    assert {"DeltaNet", "Gated DeltaNet", "GLA", "RWKV-7"} < set(shown["series"])


def test_the_points_of_the_sweep_match_the_published_ones() -> None:
    """A wrong window, or a count of heads that no cell has, would silently compare nothing."""
    batch = study.batch("based_fig2")
    distinct = {tuple(word for word in cell if word.startswith(("mixer", "d_model"))) for cell in batch}
    points = [yaml.safe_load("\n".join(cell).replace("=", ": ")) for cell in sorted(distinct)]
    records = [
        study.record(
            point["mixer"], 0.5, d_model=point.get("d_model", 64), task="mqar_based", slices=study.SEVEN,
            state=7, **{key[6:]: value for key, value in point.items() if key.startswith("mixer.")},
        )
        for point in points
    ]  # fmt: skip
    ours = scored.means(study.table(records))
    compared = beside.compare(read.points("based_fig2"), ours)
    later = compared.loc[compared["figure"] != "Fig. 2"]["mixer"].value_counts().to_dict()
    known = {"attention": 2, "based": 9, "sliding_window": 8, "mamba": 3, "mamba2": 5, "hyena": 3, "h3": 3}
    assert later == known


def test_claims_name_mixers_and_settings_that_exist() -> None:
    conf = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "conf" / "mixer").glob("*.yaml")}
    columns = {f"mixer.{key}" for settings in conf.values() for key in settings}
    everything = pd.DataFrame({"mixer": list(conf)}).reindex(columns=["mixer", *columns])
    for figure in FIGURES:
        claims = read.claims(figure)
        assert len(claims) >= 3
        for claim in claims.to_dict("records"):
            for side in ("better", "worse"):
                where(everything, claim[side])  # raises for a setting that no mixer has
                assert any(f"'{name}'" in claim[side] for name in conf)


def published(**change: object) -> pd.DataFrame:
    row = {
        "source": "A", "figure": "1", "task": "mqar", "mixer": "based", "d_model": 64.0,
        "mixer.feature_dim": 8.0,
        "slice": "seq_len=64,num_kv_pairs=8", "state": 1000, "accuracy": 0.8, "reading_error": 0.01,
        "note": "",
    }  # fmt: skip
    return pd.DataFrame([row | change])


def ours(*scores: float, coverage: float = 1.0, **settings: object) -> pd.DataFrame:
    settings = {"feature_dim": 8} | settings
    return scored.means(study.table(study.seeds("based", scores, coverage=coverage, **settings)))


@pytest.mark.parametrize(
    ("scores", "coverage", "verdict"),
    [
        ((0.80, 0.80, 0.80), 1.0, beside.WITHIN),
        ((0.70, 0.75, 0.82), 1.0, beside.WITHIN),  # the interval reaches it
        ((0.791,), 1.0, beside.WITHIN),  # within the reading error alone
        ((0.745,), 1.0, beside.NEAR),
        ((0.745,), 0.9, beside.OFF),  # a bounded view determines the number: no room for reproduction
        ((0.73,), 1.0, beside.OFF),
        ((0.87, 0.88, 0.89), 1.0, beside.OFF),
    ],
)
def test_a_deviation_is_judged_by_interval_and_reading_error(
    scores: tuple[float, ...], coverage: float, verdict: str
) -> None:
    (row,) = beside.compare(published(), ours(*scores, coverage=coverage)).to_dict("records")
    assert row["verdict"] == verdict
    assert row["deviation"] == pytest.approx(np.mean(scores) - 0.8)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "mqar_based"}, {"mixer": "mamba"}, {"d_model": 128.0}, {"mixer.feature_dim": 16.0},
        {"slice": "mean of 7 slices"}, {"mixer.window": 9.0},
    ],
)  # fmt: skip
def test_only_the_same_settings_are_compared(change: dict[str, object]) -> None:
    assert beside.compare(published(**change), ours(0.8)).empty


def test_a_point_of_unknown_settings_is_compared_with_the_best_of_equal_state() -> None:
    unknown = published(**{"d_model": np.nan, "mixer.feature_dim": np.nan})
    lower = unknown.assign(accuracy=0.6)
    records = [
        study.record("based", score, d_model=width, state=5, paper=state)
        for score, width, state in ((0.7, 32, 1000), (0.9, 64, 1000), (1.0, 128, 2000))
    ]
    compared = beside.compare(pd.concat([lower, unknown]), scored.means(study.table(records)))
    assert compared["published"].tolist() == [0.8] and compared["ours"].tolist() == [0.9]
    assert compared["candidates"].tolist() == [2]


def line(*points: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame(points, columns=["x", "accuracy"])


def test_a_lead_is_the_mean_over_budgets_that_both_reach() -> None:
    assert ordering.lead(line((1, 0.5), (4, 0.9)), line((2, 0.6)), "x") == pytest.approx(-0.1)
    # from 2 to 4 behind by .1, from 4 to 16, twice as long, ahead by .3
    assert ordering.lead(line((1, 0.5), (4, 0.9)), line((2, 0.6), (16, 0.7)), "x") == pytest.approx(0.5 / 3)
    assert ordering.lead(line((8, 1.0)), line((1, 0.2), (2, 0.7)), "x") == pytest.approx(0.3)
    # more state is no worse: what a smaller point recalls counts within a larger budget
    assert ordering.lead(line((1, 0.9), (4, 0.2)), line((1, 0.5), (4, 0.5)), "x") == pytest.approx(0.4)


def verdicts(ours: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Compare scores of each seed with a printed a .9, b .5, c .49."""
    printed = pd.concat(
        published(mixer=name, accuracy=score) for name, score in (("a", 0.9), ("b", 0.5), ("c", 0.49))
    )
    printed = printed.rename(columns={"state": "state_resident"})
    return ordering.compare(printed, scored.of_seeds(study.table(study.mixers(ours))), x="state_resident")


def test_an_ordering_agrees_disagrees_or_stays_open() -> None:
    result = verdicts({"a": (0.6, 0.8), "b": (0.7, 0.71), "c": (0.9, 0.95)})
    rows = {(row["first"], row["second"]): row for row in result.to_dict("records")}
    assert rows["A", "B"]["verdict"] == ordering.OPEN  # ahead with one seed, behind with the other
    assert rows["A", "B"]["low"] == pytest.approx(-0.1) and rows["A", "B"]["high"] == pytest.approx(0.09)
    assert rows["A", "C"]["verdict"] == ordering.DISAGREES
    assert rows["B", "C"]["verdict"] == ordering.CLOSE  # .01 apart in the paper: no ordering
    assert ordering.tau(result) == pytest.approx(-0.5)
    agree = verdicts({"a": (0.9, 0.8), "b": (0.2, 0.3), "c": (0.1, 0.1)})
    assert ordering.tau(agree) == 1
    assert np.isnan(ordering.tau(agree.loc[agree["verdict"] == ordering.CLOSE]))


def test_a_lead_of_a_seed_is_of_the_point_with_the_best_mean() -> None:
    narrow = study.mixers({"a": (1.0, 0.0)}, d_model=32)
    records = narrow + study.mixers({"a": (0.4, 0.8), "b": (0.5, 0.5)}, d_model=64)
    rows = scored.of_seeds(study.table(records))
    first, second = (rows.loc[rows["mixer"] == name] for name in "ab")
    assert ordering.leads(first, second, "d_model").to_dict() == pytest.approx({0: -0.1, 1: 0.3})


def test_sentences_name_who_leads_here_and_in_the_paper() -> None:
    text = "\n".join(words.of_ordering(verdicts({"a": (0.6,), "b": (0.7,), "c": (0.9,)}), "sizes of state"))
    assert "sizes and accuracies cannot be compared" in text
    assert "ours agree with 0 and disagree with 2" in text and "tau is -1.00; 1 more" in text
    assert "in the paper A leads C by 0.41; here C leads A by 0.300." in text
    assert "There is one seed" in text
    off = words.of_points(beside.compare(published(), ours(0.5, 0.51, 0.52)))
    assert "0 of 1 published points lie within" in off[0] and "mean deviation is -0.290" in off[0]
    assert off[1].startswith("Off: Based, d_model=64") and "ours 0.510 (0.500 to 0.520" in off[1]
    assert len(off) == 2


def test_a_claim_is_compared_where_both_sides_share_their_settings() -> None:
    cells = [("chunk", 16, 0.9), ("random", 16, 0.5), ("random", 32, 0.99), ("none", 32, 0.1)]
    same = {"gate": "none", "block_size": 4, "top_k": 2}
    records = [study.record("se_attn", score, selection=s, chunk_size=n, **same) for s, n, score in cells]
    result = ordering.claims("se_attn_ablations", scored.of_seeds(study.table(records))).set_index("claim")
    known = {"the paper's choice of blocks beats chance": 0.4}  # not with chunks of 32, which lack one
    known |= {"blocks chosen by chance beat none": 0.89}
    assert result["ours"].to_dict() == pytest.approx(known)
    without = [study.record("attention", 1.0)]
    assert ordering.claims("se_attn_ablations", scored.of_seeds(study.table(without))).empty
    nothing = "No published statement is about these settings."
    assert words.of_claims(result.iloc[:0].reset_index()) == [nothing]
