"""An encoder–decoder in one file of the user's own, made of Octavo's attention, blocks and norms: it learns to copy."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.forked import Octavo
from octavo.training.checkpoint_folder import list_checkpoints

PARTS = Path(__file__).with_name("encoder_decoder.py")
SETTINGS = (
    "model={kind: own-encoder-decoder, width: 32, heads: 2, layers: 2, context: 16}",
    "batches=twice",
    "objective=following",
    "split=documents",
    "training.steps=200",
    "training.batch=24",
    "training.keep=100",
    "training.checkpoint_every=50",
    "training.optimizer.learning_rate=0.005",
    "evaluation.every=50",
    "logging.every=20",
    "sampling.temperature=0",
    "sampling.prompt=abcd",
)


@pytest.fixture(scope="module")
def trained(octavo: Octavo) -> Path:
    draw = random.Random(5)
    words = {"".join(draw.choices("abcdef", k=draw.randint(3, 6))) for _ in range(900)}
    lines = [json.dumps({"text": word * 2}) for word in sorted(words) if word != "abcdef"]
    (octavo.folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    out = octavo.folder / "pairs"
    done = train(octavo, out)
    assert done.code == 0, done.err
    return out


def train(octavo: Octavo, out: Path, *more: str) -> Any:
    words = ("--parts", PARTS, "train", "recipe.yaml", "--text", "pairs.jsonl", "--out", out, *SETTINGS)
    return octavo(*words, *more)


def losses(run: Path) -> list[tuple[int, float]]:
    rows = (json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [(row["step"], row["loss"]) for row in rows if row["event"] == "train"]


def test_it_learns_and_is_judged_and_reported(octavo: Octavo, trained: Path) -> None:
    found = losses(trained)
    assert found[-1][1] < 0.2 * found[0][1]
    evaluation = json.loads((trained / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["accuracy"] > 0.9, evaluation["val_loss"]
    assert evaluation["unit"] == "nats per token given its source" and "bits_per_byte" not in evaluation
    page = (trained / "report" / "index.html").read_text(encoding="utf-8")
    assert "nats per token given its source" in page


@pytest.mark.parametrize("source", ["fade", "cab", "abcdef"])
def test_it_writes_what_a_source_says(octavo: Octavo, trained: Path, source: str) -> None:
    words = ("generate", trained, "--parts", PARTS, "--prompt", source, "--temperature", "0", "--tokens", "6")
    done = octavo(*words)
    assert done.code == 0, done.err
    assert done.out.strip() == 2 * source  # the prompt, and what follows from it


def test_it_goes_on_to_the_same_bits(octavo: Octavo, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > 100:
            shutil.rmtree(checkpoint.folder)
    done = train(octavo, out, "--resume")
    assert done.code == 0 and "resuming after step 100" in done.err, done.err
    assert losses(out) == losses(trained)
    weights = [run / "checkpoints" / "step-000200" / "model.safetensors" for run in (out, trained)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_batches_and_a_model_that_do_not_go_together_are_refused(octavo: Octavo, trained: Path) -> None:
    dry = ("--parts", PARTS, "train", "recipe.yaml", "--text", "pairs.jsonl", "--dry-run", *SETTINGS)
    done = octavo(*dry, "batches=windows")
    assert done.code == 2 and "has an encoder, and they have no source for it" in done.err, done.err
    done = octavo(*dry, "model={kind: gpt}")
    assert done.code == 2 and "have a source for an encoder, and a model of kind gpt has none" in done.err
    planned = ("--parts", PARTS, "plan", "recipe.yaml", "--text", "pairs.jsonl", "--json", *SETTINGS)
    done = octavo(*planned)
    assert done.code == 0 and json.loads(done.out)["memory"]["activations"] > 0, done.err
