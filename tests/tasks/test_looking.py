"""`python -m zoo.tasks` shows rows, writes them and tests the laws."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command import refusal, written
from zoo.config.paths import CONF
from zoo.tasks.__main__ import ENOUGH, build, main, show
from zoo.tasks.base import IGNORED, sources
from zoo.tasks.laws import LAWS

each_task = pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "task").glob("*.yaml")))


def test_a_row_shows_its_pairs_and_its_queries(capsys: pytest.CaptureFixture[str]):
    main(["mqar_single", "seq_len=16", "num_kv_pairs=3", "--show", "2", "--seed", "5"])
    title, *rows = capsys.readouterr().out.splitlines()
    assert title == "train 0: seq_len=16,num_kv_pairs=3, 100000 examples, chance 0.00024, at least 36.0 bits"
    batch = build("mqar_single", ["seq_len=16", "num_kv_pairs=3"], seed=5).sample("train", 0, range(2))
    texts = " ".join(rows).split("  k")[1:]
    for text, inputs, answers in zip(texts, batch.inputs, batch.answers, strict=True):
        words = ("k" + text).split()
        bound = dict(zip(words[0:6:2], words[1:6:2], strict=True))
        pairs = zip(inputs[0:6:2].tolist(), answers.tolist(), strict=True)
        assert bound == {f"k{key}": f"v{value}" for key, value in pairs}
        queries = [re.fullmatch(r"\?(\d+)->(\d+)", word) for word in words]
        assert {f"k{m[1]}": f"v{m[2]}" for m in queries if m} == bound
        assert [int(re.findall(r"\d+", word)[0]) for word in words] == inputs.tolist()


@each_task
def test_only_queries_and_what_they_read_are_marked(name: str) -> None:
    """?: places that ask, and no others; k: where an answer is looked up; v: an answer that stands there."""
    task = build(name, [], 0, most=ENOUGH)
    batch = task.sample("test", 0, range(2))
    places = sources(task, batch)
    for row in range(2) if task.kind != "text" else ():
        words, queries = show(task, batch, row).split(), batch.answers[row] != IGNORED
        answers = set(batch.answers[row][queries].tolist())
        right = zip(batch.positions[row][queries].tolist(), batch.answers[row][queries].tolist(), strict=True)
        marked = {place: re.split(r"->|,", word) for place, word in enumerate(words) if word[0] == "?"}
        shown = [(place, f"?{answer}") for place, (_, *answers) in marked.items() for answer in answers]
        assert sorted((place, f"?{answer}") for place, answer in right) == sorted(shown)
        assert all(first == f"?{batch.inputs[row, place]}" for place, (first, *_) in marked.items())
        read = set() if places is None else set(places[row][queries].tolist())
        assert {place for place, word in enumerate(words) if word[0] == "k"} <= read
        assert {int(word[1:]) for word in words if word[0] == "v"} <= answers


def test_keys_and_values_stand_where_they_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    main(["mad_in_context_recall", "train=[{seq_len: 12, noise_percent: 0, num_examples: 9}]"])
    words = capsys.readouterr().out.split("\n", 1)[1].split()
    assert words == ["0", "15", "k2", "v13", "k5", "v15", "?2->13", "13", "3", "9", "?5->15", "15"]


def test_text_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    main(["text", "corpus.seeded.documents=4"])
    title, *lines = capsys.readouterr().out.splitlines()
    row = build("text", ["corpus.seeded.documents=4"], seed=0).sample("train", 0, range(1)).inputs[0]
    assert title.startswith("train 0: ") and chr(row[3]) + chr(row[4]) in lines[0]


def test_a_split_is_written_as_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["mqar", "--show", "0", "--split", "test", "--out", str(file := tmp_path / "new" / "rows.npz")])
    assert capsys.readouterr().out.startswith(f"wrote {file}\n")
    task, arrays = build("mqar", [], seed=0), np.load(file)
    for i, segment in enumerate(task.segments("test")):
        batch = task.sample("test", i, range(segment.num_examples))
        parts = zip(("inputs", "positions", "answers"), batch.tensors, strict=True)
        for field, part in [*parts, *batch.groups.items()]:
            assert np.array_equal(arrays[f"{segment.name}/{field}"], part.numpy())


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["mqra"], "unknown task mqra; did you mean mqar"),
        (["mqar", "filer=safe"], "unknown key task.filer; did you mean task.filler"),
        (["mqar", "task.filer=safe"], "unknown key task.filer; did you mean task.filler"),
        (["mqar", "vocab_size=["], "cannot read task.vocab_size=[: a word is key=value"),
        (["mqar", "vocab_size=${"], "cannot read task.vocab_size=${: a word is key=value"),
        (["mqar", "vocab_size=${x}"], "Interpolation key 'x' not found"),
        (["mqar", "train.0.seq_len=8"], "train.0.seq_len=8 changes a part of a list: give task.train=[...]"),
        (["mqar", "vocab_size=8,16"], "task.vocab_size=8,16 names several values: ask for one at a time."),
        (["mqar", "--config-dir", "nowhere"], "--config-dir (=nowhere) must be a folder"),
        (["mqar", "filler=saef"], "task.filler (='saef') must be one of safe, random, blank."),
        (["mqar", "power_a=1e30"], "task.power_a (=1e+30) must lie between -1e12 and 1e12."),
        (["mqar", "vocab_size=many"], "task.vocab_size (='many') must be an integer."),
        (["mqar", "--show", "-1"], "--show (=-1) must be at least 0 and at most 1000."),
        (["mqar", "--show", "99999999"], "--show (=99999999) must be at least 0 and at most 1000."),
        (["mqar", "--seed", "-1"], "seed (=-1) must be at least 0 and below 4294967296."),
        (["mqar", "--out", "/proc/rows.npz"], "No such file or directory: '/proc/rows.npz'"),
        (["mqar", "--out", "rows.csv"], "--out (=rows.csv) is written as NumPy arrays: name a file NAME.npz"),
    ],
)
def test_a_mistake_is_refused_in_one_line(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]):
    with refusal(words, SystemExit):
        main(argv)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", ", line 1: expected"),
        ("a: !!python/none", ", line 1: could not determine a constructor"),
        *((content, " must hold settings, KEY: VALUE") for content in ("- 1\n- 2", "", "1: 2")),
    ],
)
def test_a_yaml_without_settings_is_refused_in_one_line(content: str, words: str, tmp_path: Path) -> None:
    written(tmp_path / "task" / "mine.yaml", content)
    with pytest.raises(SystemExit, match=rf"^.*mine.yaml{words}.*\Z"):
        main(["mine", "--config-dir", str(tmp_path)])


def test_no_name_reaches_the_terminal_raw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = (CONF / "task" / "parity.yaml").read_text()
    written(tmp_path / "task" / "a\x1b[2J.yaml", f"# \ufeffsaid\n{ours}")
    main(["--config-dir", str(tmp_path)])
    printed = capsys.readouterr().out
    assert r"a\x1b[2J: computation" in printed
    assert r"\ufeffsaid" in printed
    assert not {"\x1b", "\ufeff"} & set(printed)
    with refusal(r"unknown task m\x1b[2J", SystemExit):
        main(["m\x1b[2J"])


def test_all_tasks_are_listed_and_the_laws_test_a_task_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ours = (CONF / "task" / "mqar_single.yaml").read_text()
    settings = ours.replace("zoo.tasks.mqar.MQAR.one_load", "my_task.Mine.one_load")
    written(tmp_path / "my_conf" / "task" / "my_task.yaml", settings)
    code = "class Mine(MQAR):\n    def chance(self, segment):\n        return 0.5\n"
    (tmp_path / "my_task.py").write_text(f"from zoo.tasks.mqar import MQAR\n\n{code}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_task", raising=False)
    mine = ["--config-dir", str(tmp_path / "my_conf")]
    main(mine)
    listed = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[::2]]
    assert {"mqar", "mqar_based", "my_task"} <= set(listed)
    with pytest.raises(SystemExit) as stop:
        main(["my_task", "--laws", *mine, "num_kv_pairs=2"])
    printed = capsys.readouterr().out.splitlines()
    assert stop.value.code == 1 and printed[0] == f"my_task: keeps {len(LAWS) - 1} of {len(LAWS)} laws"
    assert printed[1].startswith(
        "guessing scores chance: seq_len=64,num_kv_pairs=2: no single guess scores 0.5"
    )
    monkeypatch.setattr("my_task.Mine.least_bits", lambda self, segment: 1 / 0)
    with pytest.raises(SystemExit, match=r"^error: ZeroDivisionError: .* \(test_looking\.py:\d+"):
        main(["my_task", *mine])
