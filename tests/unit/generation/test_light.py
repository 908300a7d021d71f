"""Runs that write without torch: the same texts, and everything else left to `Run`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from octavo.config import load_recipe
from octavo.errors import CheckpointError
from octavo.generation.kernel import compiled
from octavo.generation.light import opened
from octavo.generation.sampling import SamplingOptions
from octavo.model.base import build_model
from octavo.run.run import Run
from octavo.run.saved import save_run
from octavo.tokenizers import build_tokenizer
from octavo.training.checkpoint import model_tensors
from octavo.training.checkpoint_folder import CheckpointFolder, seal
from octavo.util.files import file_hash

pytestmark = pytest.mark.skipif(compiled() is None, reason="there is no kernel here")

TEXT = "Who is there? It is I, the wind; it blows, and says: who is there? Él y ella, los dos. " * 20
SHAPES = {
    "plain": [],
    "modern": [
        "model.positions=rotary",
        "model.norm={kind: rms, scale: false}",
        "model.qk_norm=true",
        "model.ngrams={kind: hashed, longest: 3, buckets: 97}",
        "model.feed_forward={kind: relu2, bias: false}",
    ],
    "mixing": ["model.counts={kind: mixing, recent: 0}"],
    "mixing, said": ["model.counts={kind: mixing, recent: 30}", "model.logit_softcap=5"],
    "kneser-ney": ["model.counts={kind: kneser-ney, orders: 4, recent: 0}", "model.head_bias=true"],
    "kneser-ney, said": ["model.counts={kind: kneser-ney, orders: 3, recent: 30}"],
}
TOKENIZERS = ("byte", "{kind: byte, characters: 9}", "char", "word", "{kind: bpe, size: 300}")


def saved(folder: Path, tokenizer: str = "char", *overrides: str) -> Path:
    small = ["model.layers=2", "model.width=32", "model.heads=4", "model.context=24", "model.dropout=0"]
    recipe = load_recipe("shakespeare-char", [*small, f"tokenizer={tokenizer}", *overrides])
    known = build_tokenizer(recipe.tokenizer, lambda: iter([TEXT]), documents=False)
    model = build_model(recipe.model, vocab_size=known.vocab_size, seed=4)
    tokens = known.encode(TEXT)
    model.take_text(tokens, np.arange(len(tokens)) > 0.8 * len(tokens), spelt=known.spelt)
    model.settle()
    if (recent := getattr(model.counts, "recent", None)) is not None:
        recent.start(0.3)
    save_run(folder, recipe, known, model_tensors(model), step=5, facts={}, log="made")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("light") / "run", "char", *SHAPES["modern"])


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("light") / "counting", "char", *SHAPES["mixing, said"])


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run", symlinks=True)


def texts(path: Path, prompt: str, **options: Any) -> tuple[str, str]:
    """By both. Pieces differ, for what is drafted goes by the clock."""
    light = opened(path, "best", SamplingOptions(**options))
    assert light is not None
    given = SamplingOptions(**options).given()
    return "".join(light.stream(prompt, **given)), Run.open(path).generate(prompt, **given)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_texts_are_those_of_torch(tmp_path: Path, tokenizer: str, shape: str) -> None:
    """Past the context, so that the window slides."""
    path = saved(tmp_path / "run", tokenizer, *SHAPES[shape])
    for precision in ("float32", "bfloat16", "int8"):
        found, expected = texts(path, "who is", tokens=60, seed=11, precision=precision)
        assert found == expected and len(found) > 10


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 0.3, "seed": 2**64 - 1},
        {"top_k": 3},
        {"top_p": 0.8},
        {"min_p": 0.2},
        {"repetition_penalty": 1.4},
        {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 0.9},
        {"window": "crop", "tokens": 40},
        {"stop": ("e", "th")},
        {"tokens": 1},
    ],
    ids=str,
)
def test_every_option_gives_the_text_of_torch(run: Path, counting: Path, options: dict[str, Any]) -> None:
    for path, prompt in ((run, ""), (run, "It is I"), (counting, "It is I")):
        found, expected = texts(path, prompt, **options)
        assert found == expected


@pytest.mark.parametrize("which", ["best", "last", "5", "step-5", "step-000005"])
def test_checkpoints_are_named_as_for_any_run(run: Path, which: str) -> None:
    expected = Run.open(run, checkpoint=which).generate("the", tokens=9)
    for path in (run, run / "checkpoints" / "step-000005"):
        light = opened(path, which, SamplingOptions(tokens=9))
        assert light is not None and "".join(light.stream("the", seed=0)) == expected


def altered(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def listing(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """MANIFEST.json changed, and sealed again."""

    def do(folder: Path) -> None:
        path = folder / "MANIFEST.json"
        manifest = json.loads(path.read_text())
        del manifest["sha256"]
        change(manifest)
        path.write_text(json.dumps({**manifest, "sha256": seal(manifest)}))

    return do


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a weight": altered("model.safetensors", lambda each: each[:-1] + bytes([each[-1] ^ 1])),
    "a cut file": altered("model.safetensors", lambda each: each[:-9]),
    "settings": altered("config.yaml", lambda each: each.replace(b"heads: 4", b"heads: 2")),
    "a tokenizer": altered("tokenizer/tokenizer.json", lambda each: each.replace(b"W", b"V", 1)),
    "state": altered("state.json", lambda each: each + b" "),
    "the listing": altered("MANIFEST.json", lambda each: each.replace(b"model.", b"nodel.", 1)),
    "no listing": lambda folder: (folder / "MANIFEST.json").unlink(),
    "a listing that is none": altered("MANIFEST.json", lambda each: b"[]"),
    "a missing file": lambda folder: (folder / "state.safetensors").unlink(),
    "a file more": lambda folder: (folder / "more.bin").write_bytes(b"1"),
    "another step": listing(lambda manifest: manifest.update(step=6)),
    "another format": listing(lambda manifest: manifest.update(format=2)),
    "a file less in the listing": listing(lambda manifest: manifest["files"].pop("state.json")),
    "a file elsewhere": listing(
        lambda manifest: manifest["files"].update({"../../config.yaml": manifest["files"]["config.yaml"]})
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_damaged_is_not_opened(copy: Path, what: str) -> None:
    folder = copy / "checkpoints" / "step-000005"
    assert opened(copy, "best", SamplingOptions()) is not None
    DAMAGE[what](folder)
    assert opened(copy, "best", SamplingOptions()) is None
    with pytest.raises(CheckpointError):
        CheckpointFolder(folder).verify()


def test_what_else_there_is_is_left_to_torch(run: Path, tmp_path: Path, copy: Path) -> None:
    assert opened(run, "best", SamplingOptions(only_valid=True)) is None
    assert opened(tmp_path / "none", "best", SamplingOptions()) is None
    assert opened(run, "6", SamplingOptions()) is None
    assert opened(run, "best", SamplingOptions(temperature=float("nan"))) is None
    assert opened(run, "best", SamplingOptions(temperature=float("inf"))) is None
    assert opened(run, "best", SamplingOptions(top_k=0)) is None
    assert opened(run, "best", SamplingOptions(window="jump")) is None  # type: ignore[arg-type]
    (copy / "config.yaml").unlink()
    assert opened(copy, "best", SamplingOptions()) is None
    grid = saved(tmp_path / "grid", "char", "model.positions={kind: grid, axes: [6]}")
    assert opened(grid, "best", SamplingOptions()) is None
    assert Run.open(grid).generate("the", tokens=5)


@pytest.mark.parametrize("name", ["tokens", "units", "weights"])
def test_counts_that_a_kernel_cannot_trust_are_left_to_torch_which_refuses_them(
    counting: Path, tmp_path: Path, name: str
) -> None:
    """In a checkpoint that is whole otherwise."""
    copy = shutil.copytree(counting, tmp_path / "run", symlinks=True)
    folder = copy / "checkpoints" / "step-000005"
    path = folder / "model.safetensors"
    weights = load_file(path)
    most = np.inf if weights[f"counts.{name}"].dtype == np.float32 else 255
    weights[f"counts.{name}"] = np.full_like(weights[f"counts.{name}"], most)
    save_file(weights, path)
    entry = {"bytes": path.stat().st_size, "sha256": file_hash(path)}
    listing(lambda manifest: manifest["files"].update({path.name: entry}))(folder)
    CheckpointFolder(folder).verify()
    assert opened(copy, "best", SamplingOptions()) is None
    with pytest.raises(CheckpointError):
        Run.open(copy).generate("It is", tokens=5)


@pytest.mark.parametrize("which", ["run", "counting"])
def test_neither_torch_nor_pydantic_is_imported(which: str, request: pytest.FixtureRequest) -> None:
    """By the command itself: it writes the same, and these stay away."""
    run: Path = request.getfixturevalue(which)
    program = (
        "import sys, atexit; from octavo.cli import main\n"
        "atexit.register(lambda: print(*{'torch', 'pydantic'} & {*sys.modules}, file=sys.stderr))\n"
        f"main(['generate', {str(run)!r}, '--prompt', 'It is', '--tokens', '20', '--seed', '3'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == f"It is{Run.open(run).generate('It is', tokens=20, seed=3)}\n"
    assert done.stderr.splitlines() == ["seed 3", ""]
