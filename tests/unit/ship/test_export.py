"""An export is proven or says that it is not; what cannot be exported is refused with nothing written."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import octavo
from guards.snippets import blocks
from octavo.errors import InputError, OctavoError
from octavo.ship.export import CERTIFICATE, NOT_PROVEN, export, verify
from octavo.ship.targets.base import Parcel
from octavo.ship.targets.hf import HuggingFace
from octavo.ship.weights import Weights
from unit.ship.made import TEXT

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "text.txt").write_text(TEXT * 3, encoding="utf-8")
    words = ["model.layers=1", "model.width=32", "model.context=32", "training.steps=4", "training.threads=1"]
    words += ["validation=0.3", "training.checkpoint_every=4", "training.precision=float32"]
    octavo.train(
        "shakespeare-char-modern", text=folder / "text.txt", out=folder / "bard", overrides=words, quiet=True
    )
    return folder / "bard"


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    out = run.parent / "deep" / "bard-hf"
    (found,) = export(run, ["hf"], out)
    assert (found.folder, found.missed) == (out, [])
    return out


def test_it_is_proven_and_verified(exported: Path) -> None:
    certificate = json.loads((exported / CERTIFICATE).read_text())
    assert certificate["promised"] == {"model": "exact", "tokenizer": "exact"}
    measured = certificate["measured"]
    assert measured["largest_logit_difference"] <= 1e-4 and measured["positions"] >= 1024
    assert measured["first_greedy_difference"] == [None] * 5 and measured["greedy_tokens"] == 200
    assert abs(measured["loss"] - measured["loss_of_the_run"]) < 1e-5
    assert "model.safetensors" in certificate["files"] and "proof/strings.json" in certificate["files"]
    assert verify(exported).missed == []
    assert not list(exported.parent.glob(".tmp-*"))


def test_the_lines_of_the_card_run(exported: Path) -> None:
    (lines,) = [
        one.text
        for one in blocks((exported / "README.md").read_text(encoding="utf-8"))
        if one.language == "python"
    ]
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=exported, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The ") and len(done.stdout) > 10


def test_nothing_in_it_names_a_folder_of_this_machine(exported: Path, run: Path) -> None:
    assert str(run.parent) in (run / "config.yaml").read_text(encoding="utf-8")
    found = [one for one in exported.rglob("*") if one.is_file()]
    assert found and not [one for one in found if str(run.parent).encode() in one.read_bytes()]
    assert "- text.txt" in (exported / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_altered_file_is_found(exported: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    with (copy / name).open("ab") as file:
        file.write(b" ")
    try:
        missed = verify(copy).missed
    except OctavoError as error:  # the library does not open it
        missed = [error.what]
    assert any(name in one or "could not be opened" in one for one in missed)


def test_what_misses_its_bound_says_so_in_its_name(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = HuggingFace.write

    def wrong(self: HuggingFace, parcel: Parcel, folder: Path) -> None:
        tensors = {name: tensor * 1.01 for name, tensor in parcel.weights.tensors.items()}
        honest(self, Parcel(Weights(parcel.weights.shape, tensors), parcel.tokenizer, "float32", "x"), folder)

    monkeypatch.setattr(HuggingFace, "write", wrong)
    (found,) = export(run, ["hf"], tmp_path / "out")
    assert found.folder == tmp_path / f"out{NOT_PROVEN}" and found.folder.is_dir()
    assert not (tmp_path / "out").exists() and "logits differ by" in found.missed[0]
    assert "**Not proven:**" in (found.folder / "README.md").read_text(encoding="utf-8")


def test_a_full_disk_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: HuggingFace, parcel: Parcel, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(HuggingFace, "write", full)
    with pytest.raises(InputError, match="the disk is full"):
        export(run, ["hf"], tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_a_sentence(run: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for to, out, words in [
        (["hf"], tmp_path / "there", "exists already"),
        (["keras"], tmp_path / "out", "no target 'keras'"),
    ]:
        with pytest.raises(InputError, match=words):
            export(run, to, out)
    with pytest.raises(InputError, match="has no q8_0 here"):
        export(run, ["hf"], tmp_path / "out", dtype="q8_0")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(run / "config.yaml", unfinished)
    with pytest.raises(InputError, match="has no checkpoint yet"):
        export(unfinished, ["hf"], tmp_path / "out")
    with pytest.raises(InputError, match="holds no export"):
        verify(tmp_path / "there")
    promised = {"model": "exact", "tokenizer": "exact"}
    wrong = {"target": "hf", "dtype": "float7", "promised": promised, "files": {}}
    for content in (
        [],
        {},
        wrong,
        {**wrong, "dtype": "float32", "promised": {"model": 1, "tokenizer": "exact"}},
    ):
        (tmp_path / "there" / CERTIFICATE).write_text(json.dumps(content))
        with pytest.raises(InputError, match="is no certificate"):
            verify(tmp_path / "there")
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_is_a_sentence(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, symlinks=True)
    for weights in copy.glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InputError, match="No checkpoint"):
        export(copy, ["hf"], tmp_path / "out")


@pytest.mark.slow
def test_shakespeare_writes_the_same_everywhere(test_data: Path, tmp_path: Path) -> None:
    """Three libraries that have never heard of Octavo write the run's 200 greedy characters."""
    for package in ("gguf", "llama_cpp", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'octavo[ship]'")
    words = ["training.steps=30", "training.threads=1", "evaluation.tokens=20000"]
    text = test_data / "tinyshakespeare.txt"
    octavo.train("shakespeare-char-modern", text=text, out=tmp_path / "bard", overrides=words, quiet=True)
    found = export(tmp_path / "bard", ["hf", "gguf", "onnx"], tmp_path / "out")
    assert [one.target for one in found] == ["hf", "gguf", "onnx"]
    for one in found:
        assert one.missed == [] and one.folder == tmp_path / "out" / one.target
        measured = one.certificate["measured"]
        assert measured["first_greedy_difference"] == [None] * 5 and measured["greedy_tokens"] == 200
        assert measured["largest_logit_difference"] <= 1e-4
        assert measured["strings"]["other_ids"] == measured["strings"]["other_text"] == 0
        assert measured["strings"]["taken_still"] == 0
