"""A model from elsewhere through the command line: brought, judged, written with, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo
from e2e.test_tune import chats
from octavo.run.run import Run

pytest.importorskip("transformers")

from unit.export import folders


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.saved("gpt2", tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def brought(octavo: Octavo, gpt2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("brought") / "run"
    done = octavo("import", gpt2, "--out", out)
    assert done.code == 0, done.err
    assert "Hugging Face (gpt2)" in done.out and f"octavo eval {out} --text PATH" in done.out
    return out


def test_it_says_where_it_comes_from(octavo: Octavo, brought: Path, gpt2: Path) -> None:
    facts = json.loads(octavo("info", brought, "--json").out)
    assert facts["imported_from"] == f"{gpt2}, Hugging Face (gpt2)"
    assert facts["finished"] is True and facts["step"] == 0
    assert facts["checkpoints"] == {"step-000000": "whole, best, last"}
    manifest = json.loads((brought / "manifest.json").read_text())
    assert manifest["imported"]["files"].keys() == {"config.json", "model.safetensors", "tokenizer.json"}
    assert json.loads(octavo("runs", brought.parent, "--json").out)[0]["state"] == "finished"


def test_it_writes_and_is_judged(octavo: Octavo, brought: Path) -> None:
    written = octavo("generate", brought, "--prompt", "the brown", "--tokens", "8", "--temperature", "0")
    assert written.code == 0 and written.out.startswith("the brown"), written
    judged = octavo("eval", brought, "--text", "text.txt", "--json")
    assert judged.code == 0, judged.err
    found = json.loads(judged.out)
    assert found["bits_per_byte"] > 4 and "uniform" in found["baselines"]
    refused(octavo("eval", brought), "--text PATH")


def test_its_tokenizer_serves_a_run_of_its_own(octavo: Octavo, brought: Path, tmp_path: Path) -> None:
    tokenizer = f"tokenizer={{kind: huggingface, file: {brought}/tokenizer/tokenizer.json}}"
    done = octavo(
        "train", "recipe.yaml", tokenizer, "training.steps=2", "--text", "text.txt", "--out", tmp_path / "new"
    )
    assert done.code == 0, done.err
    saved = (tmp_path / "new" / "tokenizer" / "tokenizer.json").read_bytes()
    assert saved == (brought / "tokenizer" / "tokenizer.json").read_bytes()


def test_what_is_refused(octavo: Octavo, brought: Path, gpt2: Path, tmp_path: Path) -> None:
    refused(octavo("import", gpt2, "--out", brought), "exists already")
    refused(octavo("import", tmp_path / "nothing", "--out", tmp_path / "new"), "does not exist")
    (tmp_path / "model.pt").write_bytes(b"")
    refused(octavo("import", tmp_path / "model.pt", "--out", tmp_path / "new"), "run code", "save_pretrained")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


@pytest.mark.slow
def test_a_model_from_elsewhere_can_be_tuned_in_its_own_vocabulary(octavo: Octavo, tmp_path: Path) -> None:
    """It has some of the template's tokens and rows that its tokenizer does not know: what is there already is taken,
    and what is new stands behind all rows."""
    there = folders.saved("gpt2", tmp_path / "model")
    tokens = folders.encoder()
    tokens.add_special_tokens(["<|user|>", "<|end|>"])
    rows = folders.V + 8
    longer = folders.theirs("gpt2")
    longer.resize_token_embeddings(rows)
    longer.save_pretrained(there)
    tokens.save(str(there / "tokenizer.json"))
    assert octavo("import", there, "--out", tmp_path / "base").code == 0
    records = [{"prompt": f"the {n * 'fox '}?", "completion": "the dog"} for n in range(1, 12)]
    talk = chats(tmp_path / "talk.jsonl", records)
    short = ("training.epochs=1", "training.batch=4", "validation=0.3", "sampling.tokens=4")
    done = octavo("tune", "sft", tmp_path / "base", "--text", talk, "--out", tmp_path / "run", *short)
    assert done.code == 0, done.err
    special = Run.open(tmp_path / "run").tokenizer.special
    assert [special[name] for name in ("<|user|>", "<|end|>")] == [folders.V, folders.V + 1]
    assert sorted((special["<|system|>"], special["<|assistant|>"])) == [rows, rows + 1]
    other = octavo(
        "tune", "sft", tmp_path / "base", "--text", talk, "--out", tmp_path / "new", "tokenizer=char"
    )
    refused(other, "has its model and its tokenizer", "'huggingface' in the run")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_out_and_in_again_it_is_the_same(octavo: Octavo, brought: Path, tmp_path: Path) -> None:
    words = ("export", brought, "--to", "hf", "--out", tmp_path / "hf", "--text", "text.txt")
    done = octavo(*words, patch="proven_here")
    assert done.code == 0, done
    assert octavo("import", tmp_path / "hf", "--out", tmp_path / "again").code == 0
    weights = [
        (run / "checkpoints/step-000000/model.safetensors").read_bytes()
        for run in (brought, tmp_path / "again")
    ]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_the_folder_for_torch_alone_writes_the_same_200_characters(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    words = ("export", finished, "--to", "torch", "--out", tmp_path / "alone", "--text", "text.txt")
    done = octavo(*words, patch="proven_here")
    assert done.code == 0, done
    asked = ("--prompt", "the ", "--tokens", "200", "--temperature", "0")
    own = octavo("generate", finished, *asked)
    code = "import runpy, sys; sys.modules['octavo'] = None; sys.path.insert(0, sys.argv[1]); "
    code += "sys.argv[0] = sys.argv.pop(1) + '/generate.py'; runpy.run_path(sys.argv[0], run_name='__main__')"
    alone = [sys.executable, "-I", "-c", code, str(tmp_path / "alone"), *asked]
    found = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert len(own.out) > 200 and found.stdout == own.out


@pytest.fixture(scope="module", params=["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def either(request: pytest.FixtureRequest, octavo: Octavo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind."""
    folder = tmp_path_factory.mktemp("either")
    done = octavo("import", folders.saved(request.param, folder / "model"), "--out", folder / "run")
    assert done.code == 0, done.err
    return folder / "run"


QUICKLY = ("training.steps=3", "training.batch=4", "training.threads=1", "training.precision=float32")


def test_another_training_starts_from_it(octavo: Octavo, either: Path, tmp_path: Path) -> None:
    words = ("--text", "text.txt", "--out", tmp_path / "tuned", f"training.start_from={either}")
    done = octavo("train", *words, *QUICKLY, "evaluation.initial=true", "sampling.tokens=4")
    assert done.code == 0, done.err
    judged = json.loads(octavo("eval", either, "--text", "text.txt", "--json").out)
    tuned = json.loads((tmp_path / "tuned" / "evaluation.json").read_text())
    assert tuned["val_loss"] < judged["val_loss"]
    same = ("parameters",)
    assert {name: tuned[name] for name in same} == {name: judged[name] for name in same}
    written = octavo("generate", tmp_path / "tuned", "--prompt", "the fox", "--tokens", "4")
    assert written.code == 0 and written.out.startswith("the fox")
    words = ("--to", "torch", "--out", tmp_path / "t", "--text", "text.txt")
    out = octavo("export", tmp_path / "tuned", *words, patch="proven_here")
    assert out.code == 0, out


STUDY = """\
baseline:
  training: {{start_from: {run}, steps: 3, batch: 4, threads: 1, precision: float32}}
  sampling: {{tokens: 4}}
seeds: 2
noise: 0
changes:
  - name: a larger step
    hypothesis: It learns faster.
    set: {{training.optimizer.learning_rate: 0.01}}
"""


@pytest.mark.slow
def test_a_study_of_trainings_that_start_from_it(octavo: Octavo, either: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.format(run=either))
    words = ("study", "run", tmp_path / "study.yaml", "--text", "text.txt", "--out", tmp_path / "study")
    done = octavo(*words, "--jobs", "1")
    assert done.code == 0, done.err
    assert "a larger step" in octavo("study", "report", tmp_path / "study").out
