"""Sort cells into points of a picture, and compute what each cell scored.

A *cell* is one training run.  A *point* is all settings of a cell except its learning rate and its seed.
A *series* is the points that share a legend entry: one mixer, with the settings that are words (a selection
rule, a feature map) fixed.  A *load* is what a cell was asked to do: points of two loads have no common axis.
"""

import re

import numpy as np
import pandas as pd

SAME_IN_ONE_PICTURE = ("task", "n_layers", "state_seq_len")
COUNTED = ("adaptation.trained", "adaptation.share")  # results of a recipe, not settings
PRECISION = "precision"  # the trainer's; it changes the results, so no line mixes two precisions
NOT_A_LOAD = ("task.seed",)
PROTOCOL = r"^(?:block|model|optim|trainer|max_examples)\b"  # sections of a config that records lack
MISSING = ""
PAIRS = "num_kv_pairs"
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def identify(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `zoo.results.load` with the columns of `named`, for cells of one load.

    ValueError: no single picture can show these cells together.
    """
    for column in SAME_IN_ONE_PICTURE:
        values = sorted(table[column].unique().tolist())
        if len(values) > 1:
            raise ValueError(
                f"One picture shows one {column}, and these cells have {', '.join(map(repr, values))}: "
                f'choose with --where "{column} == {values[0]!r}".'
            )
    return named(table)


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `zoo.results.load` with three more columns.

    load: what sets this cell's task apart from others in the table, in words; "" if there is only one load.
    series: the legend entry: the mixer's label, and those of its settings that are words and vary here; a
    varying precision of training counts as such a setting.
    knobs: the settings that are numbers and vary here within a load, "feature_dim=16"; and the steps of
    training, if only they tell some points apart.
    ValueError: two points would look the same in every picture.
    """
    table = table.assign(load=load_names(table))
    cells = table.drop_duplicates("run_id")
    names = pd.concat([_name(group) for _, group in cells.groupby("mixer")])
    table = table.merge(names, on="run_id", how="left", validate="many_to_one")
    return table if _lookalikes(table).empty else _told_apart(table)


def loads(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return load -> its rows of the table of `named`, from short and easy to long and hard."""
    return {name: table.loc[table["load"] == name] for name in sorted(table["load"].unique(), key=_numbers)}


def slices(table: pd.DataFrame, split: str) -> list[str]:
    """Return the slices of a split, from short and few to long and many."""
    return sorted(table.loc[table["split"] == split, "slice"].unique(), key=_numbers)


def load_axis(table: pd.DataFrame) -> str:
    """Return the key of a slice that says how much a row asks to keep.  ValueError: there is not just one."""
    axes = set(table["load_axis"]) if "load_axis" in table else {PAIRS}
    axes = {axis for axis in axes if isinstance(axis, str) and axis in table}
    tasks = ", ".join(sorted(set(map(str, table["task"]))))
    if len(axes) != 1:
        raise ValueError(f"Task {tasks} has {'several axes' if axes else 'no axis'} of load.")
    (axis,) = axes
    if table.loc[table["split"] == "test", axis].isna().any():
        raise ValueError(f"A test slice of task {tasks} has no {axis}, its load.")
    return axis


def settings(table: pd.DataFrame) -> list[str]:
    """Return the columns with settings of the mixer, of its rounded state, or of the recipe that adapted it.

    A setting with two values within one point (`retrieval_seed: ${seed}`) follows the seed and is left out.
    """
    columns = [str(name) for name in table if str(name).startswith(("mixer.", "state_codec.", "adaptation."))]
    columns = [name for name in columns if name not in (*COUNTED, "mixer.d_model")]  # it has its own column
    most = table.groupby("point")[columns].nunique().max().to_dict()
    return [name for name in columns if most[name] <= 1]


def axis_in_words(axis: str) -> str:
    """Return the label of an axis: "Key-value pairs", "Num tokens"."""
    return "Key-value pairs" if axis == PAIRS else axis.replace("_", " ").capitalize()


def seed_scores(table: pd.DataFrame, split: str, of: list[str]) -> pd.DataFrame:
    """Return one row a cell: point, lr, seed, run_id, diverged, mean accuracy and mean coverage over slices.

    The mean over the slices `of` is unweighted.  A diverged cell scores 0, here and therefore everywhere: in
    the choice of the learning rate and in the reported scores, so that a setting that survives only on one
    lucky seed does not look good.
    ValueError: a finished cell lacks a slice.
    """
    cells = table.drop_duplicates("run_id").set_index("run_id")
    rows = table.loc[(table["split"] == split) & table["slice"].isin(of)]
    wide = rows.pivot(index="run_id", columns="slice", values="accuracy")
    wide = wide.reindex(index=cells.index, columns=of)
    diverged = cells["status"] == "diverged"
    _check_complete(wide.loc[~diverged], split)
    coverage = rows.pivot(index="run_id", columns="slice", values="coverage").reindex(cells.index)
    scores = cells[["point", "lr", "seed"]].assign(
        diverged=diverged,
        accuracy=np.where(diverged, 0.0, wide.mean(axis=1)),
        coverage=coverage.mean(axis=1, skipna=False),
    )
    return scores.reset_index().sort_values(["point", "lr", "seed"], ignore_index=True)


def slices_in_words(slices: list[str]) -> str:
    """Return slices in words: "seq_len, num_kv_pairs = 64, 8"; "mean of 2 slices: (..) = (64, 4), .."."""
    pairs = [[part.split("=") for part in name.split(",")] for name in slices]
    keys = ", ".join(key for key, _ in pairs[0])
    values = [", ".join(value for _, value in pair) for pair in pairs]
    if len(slices) == 1:
        return f"{keys} = {values[0]}"
    return f"mean of {len(slices)} slices: ({keys}) = " + ", ".join(f"({value})" for value in values)


def word(value: object) -> str:
    """Return a setting as a person writes it: 8.0 -> "8", None and NaN -> ""."""
    if value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA:
        return MISSING
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def load_names(table: pd.DataFrame, *, tests: bool = True) -> list[str]:
    """Return for each row the parts of its load that vary in the table: "task=mqar, filler=safe".
    tests: False: not what the tests ask, so that loads that differ in amount alone have one name."""
    tested = table.loc[table["split"] == "test"].groupby("run_id")["slice"]
    tests_of = {run: slices_in_words(sorted(set(names), key=_numbers)) for run, names in tested}
    parts = {column: [word(value) for value in table[column]] for column in _load_columns(table)}

    def within(name: str) -> list[str]:
        """Return the groups in which a setting must vary: the tasks for a task's setting, else all rows."""
        return parts["task"] if name.startswith("task.") else [""] * len(table)

    parts = {name: values for name, values in parts.items() if _vary(values, within(name))}
    asked = [tests_of.get(run_id, MISSING) for run_id in table["run_id"]]
    several = len(set(asked)) > 1
    if several or not tests:
        parts.pop("state_seq_len", None)  # the slices contain it
    usual = {"task.loss": "answers"}  # the word of a setting that records name only where it is another
    named = [
        [f"{name.removeprefix('task.')}={value or usual.get(name, 'null')}" for value in parts[name]]
        for name in parts
    ]
    named += [asked] if several and tests else []
    return [", ".join(each) for each in zip(*named, strict=True)] if named else [""] * len(table)


def _load_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns that make a load, without the slices and the settings that are keys of slices."""
    keys = {part.partition("=")[0] for name in table["slice"].unique() for part in name.split(",")}
    settings = sorted(str(column) for column in table if str(column).startswith("task."))
    apart = {*NOT_A_LOAD, *(f"task.{key}" for key in keys)}
    return [*SAME_IN_ONE_PICTURE, *(column for column in settings if column not in apart)]


def _told_apart(table: pd.DataFrame) -> pd.DataFrame:
    """Add the steps to the knobs if all cells of each point took as many.  ValueError: that does not help."""
    steps = table.loc[table["status"] == "ok"].groupby("point")["steps"].agg(["min", "max"])
    if (steps["min"] == steps["max"]).all():
        words = steps["max"].map(" steps={}".format).to_dict()
        named_so = table["knobs"] + [words.get(name, "") for name in table["point"]]
        table = table.assign(knobs=named_so.str.strip())
    if len(alike := _lookalikes(table)):
        raise ValueError(_alike(alike.head(2)))
    return table


def _alike(pair: pd.DataFrame) -> str:
    """Return a line on two points that would look the same: in what they differ, and how to keep one."""
    columns = ["mixer", *pair.filter(regex=rf"^start$|{PROTOCOL}"), "steps"]
    names = [name for name in columns if len({*map(word, pair[name])}) > 1] or ["point"]
    first, why = names[0], f"they differ in {', '.join(names[:4])}{', ...' * (len(names) > 4)}"
    if first == "mixer":
        why = f"their mixers have one about.label (={pair['label'].iloc[0]}), so give each its own"
    value = next(value for value in pair[first] if word(value) != MISSING)
    return (
        f"{' and '.join(pair['run_id'])} would look the same: {why}; keep one kind with "
        f'--where "{first} == {value!r}" or a folder of its own.'
    )


def _lookalikes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the points that differ in nothing that an axis, colour or label shows."""
    points = table.drop_duplicates("point")
    looks = ["load", "series", "knobs", "d_model"]
    return points.loc[points.duplicated(looks, keep=False)].sort_values(looks)


def _name(cells: pd.DataFrame) -> pd.DataFrame:
    """Return run_id, series and knobs for the cells of one mixer."""
    names = sorted(settings(cells.dropna(axis="columns", how="all")))  # only the mixer's own
    words = {n.removeprefix("mixer."): [word(value) for value in cells[n]] for n in [*names, PRECISION]}
    width = [word(value) for value in cells["d_model"]]
    load = cells["load"].tolist()
    varying = [name for name, values in words.items() if values != width and _vary(values, load)]
    numbers = [name for name in varying if all(w == MISSING or _NUMBER.fullmatch(w) for w in words[name])]
    series = _pairs(words, [c for c in varying if c not in numbers], ", ", len(cells))
    return pd.DataFrame(
        {
            "run_id": cells["run_id"],
            "series": [f"{a}, {b}" if b else a for a, b in zip(cells["label"], series, strict=True)],
            "knobs": _pairs(words, numbers, " ", len(cells)),
        }
    )


def _vary(values: list[str], load: list[str]) -> bool:
    """Return whether a setting takes two values under one load (or task) and so does not just follow it."""
    return len(set(zip(values, load, strict=True))) > len(set(load))


def _pairs(words: dict[str, list[str]], names: list[str], between: str, count: int) -> list[str]:
    return [between.join(f"{n}={words[n][i]}" for n in names if words[n][i] != MISSING) for i in range(count)]


def _numbers(name: str) -> tuple[list[float], str]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", name)], name


def _check_complete(wide: pd.DataFrame, split: str) -> None:
    for run_id, row in wide[wide.isna().any(axis=1)].iterrows():
        absent = [str(name) for name in wide.columns if np.isnan(row[name])]
        raise ValueError(
            f"{run_id} has no {split} accuracy for slice {absent[0]!r}, which other cells have: "
            f"leave it out with --where \"run_id != '{run_id}'\", or choose another --slice."
        )
