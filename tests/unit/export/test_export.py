"""An export is proven or says that it is not; what cannot be exported is refused with nothing written."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import octavo
from guards.snippets import blocks
from octavo.errors import InputError
from octavo.export import export as export_module
from octavo.export.card import card
from octavo.export.export import CERTIFICATE, NOT_PROVEN, export, verify
from octavo.export.export import _same as same
from octavo.export.reference_outputs import Reference, stepwise
from octavo.export.targets.base import Parcel
from octavo.export.targets.hf import HuggingFace
from octavo.export.weights import Weights, weights_of
from octavo.run.run import Run
from octavo.util.files import file_hash, inside
from unit.export.made import TEXT, measured_here

pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("plain_reports")


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


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports are opened in this process, which has the library already."""
    monkeypatch.setattr(export_module, "measured", measured_here)


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    """Proven in a process of its own, as users have it."""
    out = run.parent / "deep" / "bard-hf"
    (found,) = export(run, ["hf"], out)
    assert (found.folder, found.missed) == (out, [])
    return out


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_what_adapters_learned_is_proven_too(run: Path, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned"
    words = [f"training.start_from={run}", "training.adapters.rank=4", "tokenizer.special=[<|user|>]"]
    words += ["training.optimizer.learning_rate=0.1", "training.steps=6"]
    octavo.train(None, run.parent / "text.txt", tuned, overrides=words, quiet=True)
    (found,) = export(tuned, ["hf"], tmp_path / "hf")
    assert not found.missed
    before, after = (Run.open(path).logits("KING:") for path in (run, tuned))
    assert np.abs(after[:, :-1] - before).max() > 0.01


@pytest.mark.usefixtures("here")
def test_it_is_proven_and_verified(exported: Path) -> None:
    certificate = json.loads((exported / CERTIFICATE).read_text())
    assert certificate["promised"] == {"model": "exact", "tokenizer": "exact"}
    measured = certificate["measured"]
    assert measured["largest_logit_difference"] <= 1e-4 and measured["positions"] >= 1024
    assert measured["first_greedy_difference"] == [None] * 5 and measured["greedy_tokens"] == 200
    assert abs(measured["loss"] - measured["loss_of_the_run"]) < 1e-5
    assert measured["loss_tokens"] == measured["of_tokens"] > 1024  # all of the validation split
    assert abs(measured["loss"] - certificate["loss_of_the_evaluation"]) < 1e-3
    assert "model.safetensors" in certificate["files"] and "proof/strings.json" in certificate["files"]
    assert verify(exported).missed == []
    assert not list(exported.parent.glob(".tmp-*"))


def test_the_lines_of_the_card_run(exported: Path) -> None:
    (lines,) = lines_of_the_card(exported)
    said = run_alone(lines, exported)
    assert said.startswith("The ") and len(said) > 10


def test_nothing_in_it_names_a_folder_of_this_machine(exported: Path, run: Path) -> None:
    assert str(run.parent) in (run / "config.yaml").read_text(encoding="utf-8")
    found = [one for one in exported.rglob("*") if one.is_file()]
    assert found and not [one for one in found if str(run.parent).encode() in one.read_bytes()]
    assert "- text.txt" in (exported / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        pytest.param("config.json", marks=pytest.mark.slow),
        pytest.param("tokenizer.json", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_bit_that_flipped_is_found(exported: Path, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    try:
        missed = verify(copy).missed
    except Exception as error:  # the library does not open it
        missed = [f"could not be opened: {error}"]
    assert any(name in one or "could not be opened" in one for one in missed)


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "../secret.txt", "a/../../secret.txt", "link.txt", "", "a\0b"]
)
def test_nothing_outside_the_folder_is_hashed(
    exported: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, secret = tmp_path / "copy", tmp_path / "secret.txt"
    shutil.copytree(exported, copy)
    secret.write_text("secret")
    (copy / "link.txt").symlink_to(secret)
    certificate = json.loads((copy / CERTIFICATE).read_text(encoding="utf-8"))
    certificate["files"][name] = file_hash(secret)
    (copy / CERTIFICATE).write_text(json.dumps(certificate), encoding="utf-8")
    hashed: list[Path] = []
    monkeypatch.setattr(export_module, "file_hash", lambda path: hashed.append(path) or "")
    with pytest.raises(InputError, match="which is not a file of this folder"):
        verify(copy)
    assert hashed == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(exported: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    (copy / "generation_config.json").unlink(missing_ok=True)
    os.mkfifo(copy / "pipe")
    (copy / "zero").symlink_to("/dev/zero")
    assert inside(copy, "pipe") and not inside(copy, "zero")
    assert not same(copy / "pipe", "") and not same(Path("/dev/zero"), "")


HOSTILE = "fine\n```\n\n# Owned\n\n---\nlicense: mine\n---\n<script>alert(1)</script>\n`````\n[x](http://x)"


def test_no_word_of_the_user_breaks_out_of_the_card(exported: Path, run: Path) -> None:
    opened = Run.open(run)
    opened.config = opened.config.model_copy(update={"description": HOSTILE})
    certificate = json.loads((exported / CERTIFICATE).read_text(encoding="utf-8"))
    kept = Reference.load(exported)
    weights = weights_of(opened.model, opened.config.model)
    parcel = Parcel(weights, opened.tokenizer, "float32", f"a\n# b {HOSTILE}", opened.config.sampling)
    text = card(HuggingFace(), parcel, opened, kept, certificate)
    outside, fence = [], ""
    for line in text.split("\n"):
        ticks = re.fullmatch(r" {0,3}(`{3,})(\w*) *", line)
        if fence:
            fence = "" if ticks and not ticks[2] and len(ticks[1]) >= len(fence) else fence
        elif ticks:
            fence = ticks[1]
        else:
            outside.append(line)
    said = "\n".join(outside)
    assert (
        not fence
        and "<script" not in said
        and "\n# Owned" not in said
        and not re.search(r"(?<!\\)\]\(http", said)
    )
    assert text.startswith("---\ntags: [octavo]\n") and outside.count("---") == 2
    assert sum(line.startswith("# ") for line in outside) == 1


@pytest.mark.usefixtures("here")
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


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), OSError("8192 requested and 0 written")],
    ids=["system", "numpy"],
)
def test_a_full_disk_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def full(self: HuggingFace, parcel: Parcel, folder: Path) -> None:
        (folder / "config.json").write_text("{")
        raise error

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
    good = {"target": "hf", "dtype": "float32", "promised": promised, "architecture": "x", "files": {}}
    for content in (
        [],
        {},
        {**good, "dtype": "float7"},
        {**good, "promised": {"model": 1, "tokenizer": "exact"}},
        {**good, "promised": {"model": "perfect", "tokenizer": "exact"}},
        {**good, "files": ["config.json"]},
        {name: value for name, value in good.items() if name != "architecture"},
    ):
        (tmp_path / "there" / CERTIFICATE).write_text(json.dumps(content))
        with pytest.raises(InputError, match="the export is damaged"):
            verify(tmp_path / "there")
    (tmp_path / "there" / CERTIFICATE).write_text("[" * 10**5)
    with pytest.raises(InputError, match="the export is damaged"):
        verify(tmp_path / "there")
    (tmp_path / "there" / CERTIFICATE).write_text(json.dumps({**good, "target": "keras"}))
    with pytest.raises(InputError, match="no target 'keras'"):
        verify(tmp_path / "there")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_any_name_of_a_run_will_do(run: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'a\n#| `b` "c" \x1b[31m'
    try:
        shutil.copytree(run, odd, symlinks=True)
    except OSError as error:
        pytest.skip(f"no file can have such a name here: {error}")
    (found,) = export(odd, ["torch"], tmp_path / "out")
    assert found.missed == [] and verify(found.folder).missed == []
    assert "\x1b" not in found.certificate["run"]["name"]
    assert (found.folder / "README.md").read_text(encoding="utf-8").count("\n# ") == 1


def test_a_damaged_checkpoint_is_a_sentence(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, symlinks=True)
    for weights in copy.glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(InputError, match="No checkpoint"):
        export(copy, ["hf"], tmp_path / "out")


ALONE = "import sys; sys.modules['octavo'] = None\nfolder, prompt = sys.argv[1:]\n"
WRITERS = {
    "hf": """
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer))
ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
print(tokenizer.decode(model.generate(**ids, max_new_tokens=200, do_sample=False)[0]), end="")
""",
    "gguf": """
import llama_cpp
kept = {"n_ctx": 256, "type_k": 0, "type_v": 0}  # keys and values in float32
usual = llama_cpp.llama_model_default_params
def plain():
    options = usual()
    options.use_extra_bufts = False
    return options
llama_cpp.llama_cpp.llama_model_default_params = plain
model = llama_cpp.Llama(folder + "/model.gguf", verbose=False, **kept)
asked = {"max_tokens": 200, "temperature": 0, "repeat_penalty": 1.0}
print(prompt + model(prompt, **asked)["choices"][0]["text"], end="")
""",
    "onnx": """
import numpy, onnxruntime, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
model = onnxruntime.InferenceSession(folder + "/model.onnx")
past = {one.name: numpy.zeros((1, one.shape[1], 0, one.shape[3]), "f4") for one in model.get_inputs()[1:]}
names = [one.name for one in model.get_outputs()]
ids = new = tokenizer.encode(prompt, add_special_tokens=False).ids
for _ in range(200):
    given = dict(zip(names, model.run(None, {"input_ids": numpy.array([new])} | past)))
    past = {name: given[name.replace("past_key_values", "present")] for name in past}
    new = [int(given["logits"][0, -1].argmax())]
    ids = ids + new
print(tokenizer.decode(ids), end="")
""",
}


def run_alone(code: str, folder: Path, prompt: str = "") -> str:
    """What lines of Python print that run in a folder, without Octavo."""
    words = [sys.executable, "-c", ALONE + code, str(folder), prompt]
    done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_shakespeare_writes_the_same_everywhere(test_data: Path, tmp_path: Path) -> None:
    """Three libraries that have never heard of Octavo write the run's 200 greedy characters."""
    for package in ("gguf", "llama_cpp", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'octavo[ship]'")
    words = ["training.steps=60", "training.threads=1", "model.layers=2", "model.context=256"]
    text = tmp_path / "shakespeare.txt"
    text.write_text(
        (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")[:100_000], encoding="utf-8"
    )
    octavo.train("shakespeare-char-modern", text=text, out=tmp_path / "bard", overrides=words, quiet=True)
    found = export(tmp_path / "bard", ["hf", "gguf", "onnx", "torch"], tmp_path / "out")
    assert [one.target for one in found] == ["hf", "gguf", "onnx", "torch"]
    run = Run.open(tmp_path / "bard")
    prompt = "ROMEO:\nWhat light"
    own = prompt + run.tokenizer.decode(stepwise(run.model)(run.tokenizer.encode(prompt).tolist(), 200))
    for one in found:
        assert one.missed == [] and one.folder == tmp_path / "out" / one.target
        measured = one.certificate["measured"]
        assert measured["first_greedy_difference"] == [None] * 5 and measured["greedy_tokens"] == 200
        assert measured["largest_logit_difference"] <= 1e-4
        assert measured["strings"]["other_ids"] == measured["strings"]["other_text"] == 0
        assert measured["strings"]["taken_still"] == 0
        (lines,) = lines_of_the_card(one.folder)
        written = own if one.target in WRITERS else ""
        said = run_alone(WRITERS.get(one.target, "") + lines, one.folder, prompt)
        assert said.startswith(written) and len(said) > len(written) + 5


def lines_of_the_card(folder: Path) -> list[str]:
    """Its Python."""
    page = (folder / "README.md").read_text(encoding="utf-8")
    return [one.text for one in blocks(page) if one.language == "python"]
