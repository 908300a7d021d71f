"""Sequences that are no text, from the command line: lines of symbols, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from e2e.asking import refused
from e2e.forked import Octavo
from octavo.tasks.records.ball import BouncingBallSource
from octavo.tasks.records.ball_rules import BallRules

RECIPE = """\
corpus: {documents: lines}
split: documents
batches: {kind: documents, alone: true}
model: {layers: 1, width: 16, heads: 2, context: 12}
training: {steps: 20, batch: 4, precision: float32, device: cpu, threads: 1}
evaluation: {every: 10}
sampling: {tokens: 11}
"""


@pytest.fixture(scope="module")
def recipe(octavo: Octavo) -> Path:
    path = octavo.folder / "lines.yaml"
    path.write_text(RECIPE)
    return path


def numbers(octavo: Octavo, *more: str) -> Path:
    path = octavo.folder / "numbers.txt"
    lines = [" ".join(str(at * step % 7) for at in range(4 + step % 5)) for step in range(60)]
    path.write_text("".join(f"{line}\n" for line in [*lines, *more]))
    return path


def train(octavo: Octavo, recipe: Path, text: Path, *more: str, out: str):
    return octavo("train", recipe, "--text", text, "--out", octavo.folder / out, *more)


def test_lines_of_numbers(octavo: Octavo, recipe: Path) -> None:
    done = train(octavo, recipe, numbers(octavo), "tokenizer={kind: symbols, size: 7}", out="numbers")
    assert done.code == 0, done.err
    written = octavo("generate", octavo.folder / "numbers", "--samples", "2", "--json")
    texts = [one["text"] for one in json.loads(written.out)["samples"]]
    assert all(0 <= int(word) < 7 for text in texts for word in text.split()) and len(texts) == 2


@pytest.mark.parametrize(
    ("tokenizer", "line", "words"),
    [
        ("tokenizer={kind: symbols, size: 7}", "1 2 9", ["line 61: ", "'9' (1×)", "below tokenizer.size"]),
        ("tokenizer={kind: symbols, size: 7}", "1 x", ["line 61: ", "'x' (1×)"]),
        ("tokenizer={kind: symbols, alphabet: '0123456 '}", "1-2", ["line 61: ", "'-' (1×)"]),
        ("tokenizer={kind: symbols, size: 7}", "0 " * 12, ["line 61 has 13 tokens, and the context 12"]),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(
    octavo: Octavo, recipe: Path, tokenizer: str, line: str, words: list[str]
) -> None:
    text = numbers(octavo, line)
    refused(train(octavo, recipe, text, tokenizer, out="wrong"), "numbers.txt", *words)


BALL = """\
corpus: {kind: bouncing-ball, rows: 4, columns: 4, frames: 2, speed: 1, levels: 2}
validator: bouncing-ball
split: documents
validation: 0.3
tokenizer: {kind: symbols, size: 2}
batches: {kind: documents, alone: true}
model: {layers: 1, width: 16, heads: 2, context: 33, positions: {kind: grid, axes: [4, 4]}}
training: {steps: 12, batch: 4, precision: float32, device: cpu, threads: 1}
evaluation: {every: 6}
sampling: {tokens: 33}
"""


@pytest.fixture(scope="module")
def films(octavo: Octavo) -> Path:
    (octavo.folder / "ball.yaml").write_text(BALL)
    done = octavo("train", "ball.yaml", "--out", "films")
    assert done.code == 0, done.err
    return octavo.folder / "films"


def test_a_run_says_how_much_of_it_is_valid(films: Path) -> None:
    evaluation = json.loads((films / "evaluation.json").read_text())
    found = evaluation["validity"]
    assert found["held_out"]["valid"] == found["held_out"]["records"] > 5
    assert found["generated"]["records"] == 200 and found["control"]["records"] == 50
    assert any("records that it wrote are valid" in line for line in evaluation["verdict"])
    assert 0 < evaluation["source_entropy"] < evaluation["val_loss"]
    assert "Is it valid?" in (films / "report" / "index.html").read_text()


def test_only_valid_films(octavo: Octavo, films: Path, finished: Path) -> None:
    world = BouncingBallSource(rows=4, columns=4, frames=2, speed=1, levels=2).world
    written = octavo("generate", films, "--only-valid", "--samples", "4", "--json")
    for one in json.loads(written.out)["samples"]:
        assert one["finish"] == "end" and BallRules(world).check(one["text"].split()).valid
    refused(octavo("generate", finished, "--only-valid"), "has no validator", "leave --only-valid out")
    refused(
        octavo("generate", films, "--only-valid", "--prompt", "1 0 1"),
        "symbol 2 is wrong, because in frame 1",
    )


def test_a_validator_of_other_records_is_refused_before_anything_is_trained(octavo: Octavo) -> None:
    for words, said in (
        (("mnist-cpu", "validator=bouncing-ball"), "knows films of corpus=bouncing-ball"),
        (("abc-cpu", "tokenizer=bpe"), "A validator reads symbols"),
    ):
        for more in (("--dry-run",), ("--out", "unmade")):
            refused(octavo("train", *words, "--text", "numbers.txt", *more), said)
    assert not (octavo.folder / "unmade").exists()


def test_images_from_an_idx_file(octavo: Octavo) -> None:
    images = np.random.default_rng(3).integers(0, 2, (60, 3, 4)).astype(np.uint8) * 255
    head = b"".join(size.to_bytes(4, "big") for size in (0x803, *images.shape))
    (octavo.folder / "tiny-idx3-ubyte.gz").write_bytes(gzip.compress(head + images.tobytes()))
    small = ("model.layers=1", "model.width=16", "model.heads=2", "model.context=13", "training.steps=10")
    small += ("training.threads=1", "training.device=cpu", "model.positions.axes=[4]", "training.batch=4")
    done = octavo("train", "mnist-cpu", "--text", "tiny-idx3-ubyte.gz", "--out", "tiny", *small)
    assert done.code == 0, done.err
    evaluation = json.loads((octavo.folder / "tiny" / "evaluation.json").read_text())
    assert evaluation["records"]["symbols"] == 12
    assert math.log(2) * 0.9 < evaluation["baselines"]["factorised"]["loss"] < 1
    assert evaluation["baselines"]["png"]["loss"] > 1
    page = (octavo.folder / "tiny" / "report" / "index.html").read_text()
    assert "What it draws" in page and page.count("data:image/png;base64,") >= 4
    again = octavo("train", "--replay", "tiny", "--out", "tiny-again")
    assert again.code == 0 and "bit for bit" in again.out + again.err, again.err
    written = octavo("generate", "tiny", "--samples", "2", "--out", "drawn")
    assert written.code == 0, written.err
    drawn = octavo.folder / "drawn"
    assert sorted(path.name for path in drawn.iterdir()) == ["records.txt", "sample-1.png", "sample-2.png"]
    assert len((drawn / "records.txt").read_text().splitlines()) == 2
    assert (drawn / "sample-1.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    refused(octavo("generate", "tiny", "--out", "drawn"), "exists", "choose another --out")
    refused(octavo("train", "mnist-cpu", "--out", "other"), "needs a text")


def test_films_are_drawn(films: Path) -> None:
    assert "data:image/png;base64," in (films / "report" / "index.html").read_text()
