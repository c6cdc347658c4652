"""A trained cell and a Hugging Face model with the same weights have the same forgetting curve."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import torch
import yaml

from tests.command import refusal
from tests.evaluation.conftest import Ask
from tests.registry import composer
from zoo.config.paths import CONF
from zoo.evaluation import huggingface
from zoo.evaluation.ar_hits import ArHits, frequency, grams, last_seen
from zoo.evaluation.forgetting import curve, evaluation
from zoo.evaluation.forgetting.curve import forgetting_curve
from zoo.evaluation.forgetting.evaluation import ForgettingCurve, predictor
from zoo.evaluation.perplexity import Perplexity
from zoo.evaluation.task_scores import Distance, Groups
from zoo.evaluation.trained import Trained
from zoo.launch.run_cell import run_cell
from zoo.model import SequenceModel, model_from_config
from zoo.results.evaluations import load_evaluations
from zoo.results.store import records
from zoo.tasks import corpora
from zoo.tasks.around import Limited
from zoo.tasks.base import Task
from zoo.tasks.corpora.load import load
from zoo.tasks.text import Text

CORPUS = yaml.safe_load((CONF / "task" / "text.yaml").read_text())["corpus"]
CORPUS["seeded"] |= {"documents": 12, "length": 300, "distances": [40]}
SETTINGS = {"seed": 0, "data": "fixed", "order": "sequential", "windows": "random", "corpus": CORPUS}
SHAPES = {split: [{"seq_len": 40, "num_examples": 9}] for split in ("train", "valid", "test")}
ASK = {"corpus": {}, "irrelevant": {}, "split": "test"}
ASK |= {"longest": 20, "shortest": 4, "count": 4, "spacing": "geometric"}


@pytest.fixture(scope="module")
def task() -> Text:
    return Text(**SETTINGS, **SHAPES)


def held(task: Task) -> Trained:
    cell = composer().cell(["mixer=attention", "task=text", "d_model=32", "mixer.num_heads=2"])
    return Trained(model_from_config(cell.config, task.vocab_size).eval(), task, cell, {})


def test_reading_in_pieces_gives_the_same_curve(task: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ForgettingCurve(**ASK, repeats=3, rows_at_once=2)
    trained = held(task)
    whole = ask.table(trained)
    monkeypatch.setattr(evaluation, "PIECE", 7)
    monkeypatch.setattr(curve, "HEAD_AT_ONCE", 3)
    pd.testing.assert_frame_equal(ask.table(trained), whole)
    assert whole["accuracy"].between(0, 1).all() and set(whole["length"]) == {4, 6, 11, 20}

    positions = torch.arange(5, 40, 3)
    inputs = task.sample("test", 0, range(3)).inputs
    predicted = predictor(trained)(inputs, positions)
    assert predicted.equal(trained.model.logits(trained.model(inputs)).argmax(-1)[:, positions])


def test_a_cell_trained_on_few_examples_is_evaluated_on_those(task: Text) -> None:
    limited = held(Limited(task, 4))
    [row] = Perplexity(split="test", batch_size=4).table(limited).to_dict("records")
    assert row["tokens"] == 4 * 40
    assert len(ForgettingCurve(**ASK, repeats=1, rows_at_once=2).table(limited))
    with refusal("Text reads no answer back"):
        Distance(split="test", batch_size=4).table(limited)
    with refusal("Text does not tell its answers apart"):
        Groups(split="test", batch_size=4).table(limited)


def test_the_record_and_the_results_identify_the_text(tmp_path: Path, ask: Ask) -> None:
    words = [f"task.{split}=[{{seq_len: 40, num_examples: 2}}]" for split in SHAPES]
    settings = {"letters": 32, "documents": 12, "length": 300, "distances": "[40]"}
    words += [f"task.corpus.seeded.{key}={value}" for key, value in settings.items()]
    cell = composer().cell(["mixer=attention", "task=text", "d_model=16", f"results={tmp_path}", *words])
    run_cell(cell, lambda progress: None)
    text = {"corpus": "seeded", "sha256": load(cell.config["task"]["corpus"], 0).sha256}
    [record] = records(tmp_path)
    assert record["made_from"] == text
    for word in ("corpus.seeded.letters=32", "corpus.seeded.letters=33"):
        ask(tmp_path, "evaluation=perplexity", f"task.{word}")
    table = load_evaluations(tmp_path, "perplexity").set_index("task.corpus.seeded.letters")
    assert set(table["made_from.corpus"]) == {"seeded"}
    assert table.loc[32, "made_from.sha256"] == text["sha256"] != table.loc[33, "made_from.sha256"]


def test_perplexity_and_its_parts(task: Text) -> None:
    """The parts of AR hits add up to the loss, and the loss is the mean cross entropy."""
    trained = held(task)
    [row] = Perplexity(split="test", batch_size=4).table(trained).to_dict("records")
    batch = task.sample("test", 0, range(9))
    logits = trained.model.logits(trained.model(batch.inputs)).double()
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
    assert row["loss"] == pytest.approx(nats.item(), rel=1e-6) and row["tokens"] == 9 * 40
    assert row["perplexity"] == pytest.approx(nats.exp().item(), rel=1e-5)
    bits = nats.item() / 0.6931471805599453 * 360 / (batch.answers < 256).sum().item()
    assert row["bits_per_byte"] == pytest.approx(bits, rel=1e-6)

    parts = ArHits(split="test", batch_size=4, gram=3, cutoffs=[1, 100]).table(trained)
    for _, part in parts.groupby("cutoff"):
        assert part["tokens"].sum() == 360
        assert (part["tokens"] * part["loss"].fillna(0)).sum() / 360 == pytest.approx(row["loss"])
    hits = parts.query("part == 'hit'").set_index("cutoff")["tokens"]
    assert hits[1] <= hits[100] and set(parts["part"]) == {"hit", "seen", "new"}


@pytest.mark.gpu
def test_ar_hits_on_a_gpu_are_those_on_a_cpu(task: Text) -> None:
    ask, trained = ArHits(split="test", batch_size=4, gram=3, cutoffs=[1]), held(task)
    here = ask.table(trained)
    trained.model.cuda()
    pd.testing.assert_frame_equal(ask.table(trained), here, rtol=1e-3)


def test_ar_hits_by_hand() -> None:
    """The pairs ab and bc of abcXabcYab repeat after 4 tokens, then ab again."""
    ids = torch.tensor([list(b"abcXabcYab")])
    whole = grams(ids, 2)
    assert whole.tolist() == [[(a << 9) | b for a, b in zip(b"abcXabcYa", b"bcXabcYab", strict=True)]]
    assert last_seen(whole).tolist() == [[0, 0, 0, 0, 4, 4, 0, 0, 4]]
    assert last_seen(torch.tensor([[-1, -1, 7, 7]])).tolist() == [[0, 0, 0, 1]]
    known, counts = torch.tensor([3, 8]).numpy(), torch.tensor([5, 6]).numpy()
    assert frequency(torch.tensor([8, 9, 3, 0]), known, counts).tolist() == [6, 0, 5, 0]


def test_texts_are_read_and_hashed_once(task: Text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{name}.txt" for name in "abcd"]
    for path, document in zip(paths, task.corpus.documents, strict=False):
        path.write_bytes(document.replace(b"\x80", b"x"))
    first, *others = [{"files": [str(path)]} for path in paths]
    texts = {"corpus": first, "irrelevant": dict(zip("bcd", others, strict=True))}
    ask = ForgettingCurve(**ASK | texts, repeats=1, rows_at_once=9)
    read, hashed = Mock(wraps=corpora.load.files), Mock(wraps=corpora.base.hashlib.sha256)
    monkeypatch.setattr(corpora.load, "files", read)
    monkeypatch.setattr(corpora.base, "hashlib", Mock(sha256=hashed))
    trained = held(task)
    for _ in range(2):
        assert set(ask.table(trained)["prefix"]) == {"", "b", "c", "d"}
        assert len(ask.made_from(trained)) == 8
    assert read.call_count == hashed.call_count == 4


def test_lengths_beyond_the_text_or_the_model_are_refused(task: Text) -> None:
    trained = held(task)
    short = trained.model
    ask = ForgettingCurve(**ASK | {"longest": 500}, repeats=3, rows_at_once=2)
    with pytest.raises(ValueError, match=r"must hold 3 x 500 tokens: use lengths up to \d+, or more text"):
        ask.table(trained)
    short.positions = torch.nn.Parameter(torch.zeros(42, 32))
    with pytest.raises(ValueError, match=r"\(=42\) must cover the sequences: raise it to 43"):
        ForgettingCurve(**ASK, repeats=3, rows_at_once=2).table(trained)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a random Llama over bytes and its tokenizer with `save_pretrained`."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("llama")
    letters = {chr(i) if i < 256 else f"<{i}>": i for i in range(259)}
    words = Tokenizer(models.WordLevel(letters, unk_token="<258>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<256>", eos_token="<257>", unk_token="<258>"
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=259,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=85,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.2,
        bos_token_id=256,
        eos_token_id=257,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def same_weights(theirs: torch.nn.Module) -> SequenceModel:
    """Return our transformer with the weights of a Llama."""
    words = ["mixer=attention", "task=text", "d_model=32", "mixer.num_heads=2", "model.layers=[mixer]"]
    ours = model_from_config(composer().cell([*words, "block=transformer_pp"]).config, 259).eval()
    weights = {name.removeprefix("model."): value for name, value in theirs.state_dict().items()}
    renamed = {"embedding": weights["embed_tokens.weight"], "final_norm.weight": weights["norm.weight"]}
    for i in range(2):
        layer = {key.removeprefix(f"layers.{i}."): value for key, value in weights.items()}
        qkv = [layer[f"self_attn.{name}_proj.weight"] for name in "qkv"]
        gate_up = [layer[f"mlp.{name}_proj.weight"] for name in ("gate", "up")]
        renamed |= {
            f"blocks.{i}.norm.weight": layer["input_layernorm.weight"],
            f"blocks.{i}.mixer.qkv.proj.weight": torch.cat(qkv),
            f"blocks.{i}.mixer.out_proj.weight": layer["self_attn.o_proj.weight"],
            f"blocks.{i}.mlp_norm.weight": layer["post_attention_layernorm.weight"],
            f"blocks.{i}.mlp.gate_up_proj.weight": torch.cat(gate_up),
            f"blocks.{i}.mlp.down_proj.weight": layer["mlp.down_proj.weight"],
        }
    ours.load_state_dict(renamed)
    return ours


def test_equal_weights_have_equal_curves(task: Text, llama: Path) -> None:
    theirs = huggingface.load(llama)
    settings = {"bos": theirs.bos, "eos": theirs.eos, "seed": 0, "repeats": 4, "rows_at_once": 3}
    assert (theirs.bos, theirs.eos, theirs.longest) == (256, 257, 64)
    with torch.device("meta"):
        assert torch.linspace(0, 1, 2).is_meta, "loading has left torch as it was"
    assert theirs.ids("aé").tolist() == [97, 233]
    ours = replace(held(task), model=same_weights(theirs.model))
    inputs = task.sample("test", 0, range(4)).inputs
    logits = theirs.model(inputs).logits
    torch.testing.assert_close(ours.model.logits(ours.model(inputs)), logits, atol=1e-4, rtol=1e-4)
    curves = [
        forgetting_curve(predict, task.ids("test"), [5, 12, 20], **settings)
        for predict in (huggingface.predictor(theirs), predictor(ours))
    ]
    pd.testing.assert_frame_equal(*curves)


def test_folders_without_a_model_are_refused(llama: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(llama, broken)
    [weights] = broken.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"which cannot be loaded \("):
        huggingface.load(broken)
    weights.rename(broken / "model.bin")
    with pytest.raises(ValueError, match=r"has no \*.safetensors: save the model with save_pretrained"):
        huggingface.load(broken)


def test_the_command_evaluates_a_hugging_face_model_once(llama: Path, tmp_path: Path, ask: Ask) -> None:
    """`python -m zoo.evaluate hf=FOLDER evaluation=forgetting_curve ...` writes a table, once."""
    book, results = tmp_path / "book.txt", tmp_path / "results"
    book.write_bytes(Text(**SETTINGS, **SHAPES).corpus.documents[0].replace(b"\x80", b"x"))
    words = [f"hf={llama}", str(results), "evaluation=forgetting_curve"]
    complete = [*words, f"evaluation.corpus.files=[{book}]", "evaluation.longest=20", "evaluation.repeats=2"]
    (other := tmp_path / "other.txt").write_text("Other words, as many as are needed.")
    complete += [f"evaluation.irrelevant={{same:{{files:[{book}]}},words:{{files:[{other}]}}}}"]
    output, _ = ask(*complete)
    assert "rows\nfine 0 (0 to 0), coarse" in output
    assert "; source of the other text at 20 tokens: F " in output
    [path] = results.glob("hf-*/evaluations/forgetting_curve-*.csv")
    table = pd.read_csv(path, comment="#", keep_default_na=False)
    kinds = set(zip(table["kind"], table["prefix"], strict=True))
    assert kinds == {("copy", ""), ("lm", "same"), ("lm", "words")}
    above = json.loads(path.read_text().partition("\n")[0].removeprefix("# "))["made_from"]
    assert above["corpus"] == "files" and above["sha256"] == above["same.sha256"] != above["words.sha256"]
    assert "is there already" in ask(*complete)[0]
    other.write_text("Yet other words, as many as are needed.")
    assert "rows\nfine 0" in ask(*complete)[0]
    [weights] = llama.glob("*.safetensors")
    os.utime(weights, ns=(1, 1))  # as if it were another file
    assert "rows\nfine 0" in ask(*complete)[0]

    for wrong, message in [
        (words, "name the text: evaluation.corpus.files=[book.txt]."),
        (
            [*complete, "evaluation.longest=40"],
            "needs 2 x 40 + 3 positions, and the model has 64: use up to 30",
        ),
        (
            [*complete, "evaluation.irrelevant={words:{}}"],
            "evaluation.irrelevant.words names no text: words: {f",
        ),
        ([*complete, "evaluation.corpus.flies=[a]"], "did you mean evaluation.corpus.files?"),
        ([f"hf={tmp_path}", *complete[1:]], "has no config.json: download the whole model into it."),
        ([words[0], "evaluation=scores"], "hf= takes evaluation=forgetting_curve."),
    ]:
        assert message in ask(*wrong, code=2)[1]
