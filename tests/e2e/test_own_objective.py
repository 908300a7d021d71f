"""The objective and batches of docs/extending.md, in a user's own files: they train, resume, are judged and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.forked import Octavo, Result
from guards.common import ROOT
from guards.snippets import blocks
from octavo.util.files import file_hash

TIMES = ("seconds", "tokens_per_second")
SETTINGS = {
    "objective": ["objective=parity"],
    "batches": ["batches={kind: late, factor: 3}"],
    "both": ["objective=parity", "batches=late"],
}
STUDY = """\
baseline: recipe.yaml
seeds: 2
budget: {steps: 10}
changes:
- {name: odd, hypothesis: It helps., set: {objective: parity}}
"""


@pytest.fixture(scope="module")
def own_parts(octavo: Octavo) -> Path:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = [block.text for block in blocks(page) if block.language == "python"]
    path = octavo.folder / "own.py"
    own = [text for text in code if '@register("objective")' in text or '@register("batches")' in text]
    assert len(own) == 2
    path.write_text("\n\n".join(own), encoding="utf-8")
    return path


def train(octavo: Octavo, own_parts: Path, out: Path, *more: str, patch: str = "") -> Result:
    options = ("--text", "text.txt", "--out", out, "training.schedule=constant", *more)
    done = octavo("--parts", own_parts, "train", "recipe.yaml", *options, patch=patch)
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def runs(octavo: Octavo, own_parts: Path) -> Mapping[str, Path]:
    """A run of 40 steps for each."""
    found = {name: octavo.folder / f"own-{name}" for name in SETTINGS}
    for name, out in found.items():
        train(octavo, own_parts, out, *SETTINGS[name], patch="drawn" if name == "objective" else "")
    return found


def rows(out: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: row[key] for key in row if key not in TIMES} for row in found if row["event"] == event]


@pytest.mark.parametrize("name", SETTINGS)
def test_it_goes_on_to_the_bit(
    octavo: Octavo, own_parts: Path, runs: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    train(octavo, own_parts, tmp_path / "run", *SETTINGS[name], "training.steps=15")
    train(octavo, own_parts, tmp_path / "run", *SETTINGS[name], "--resume")
    for event in ("train", "validation"):
        expected = [row for row in rows(runs[name], event) if row["step"] % 10 == 0]
        assert [row for row in rows(tmp_path / "run", event) if row["step"] % 10 == 0] == expected
    one, other = (
        file_hash(out / "checkpoints" / "step-000040" / "model.safetensors")
        for out in (runs[name], tmp_path / "run")
    )
    assert one == other


@pytest.mark.parametrize("name", ["objective", "both"])
def test_an_objective_is_judged_in_its_own_unit(
    octavo: Octavo, own_parts: Path, runs: Mapping[str, Path], name: str
) -> None:
    out = runs[name]
    trained, validation = rows(out, "train"), rows(out, "validation")
    assert all(0 <= row["right"] <= 1 and 0 <= row["loss"] <= 1 for row in trained + validation)
    assert {row["unit"] for row in validation} == {"squared error per token"}
    assert not any(key in row for row in validation for key in ("bits_per_byte", "perplexity", "accuracy"))
    assert trained[-1]["loss"] < trained[0]["loss"]
    evaluation = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    best = min(validation, key=lambda row: row["loss"])
    assert (evaluation["val_loss"], evaluation["right"]) == pytest.approx((best["loss"], best["right"]))
    assert evaluation["unit"] == "squared error per token" and "bits_per_byte" not in evaluation
    assert evaluation["baselines"].keys() == {"always the same"}
    assert any("always the same" in diagnostic["sentence"] for diagnostic in evaluation["diagnostics"])
    done = octavo("eval", out, "--parts", own_parts)
    assert done.code == 0 and "squared error/token" in done.out and "parity right" in done.out, done.err
    assert "bits" not in done.out and "perplexity" not in done.out
    assert octavo("eval", out, "--parts", own_parts, "--text", "text.txt").code == 0


def test_the_page_and_the_console_name_its_unit(
    octavo: Octavo, own_parts: Path, runs: Mapping[str, Path]
) -> None:
    page = (runs["objective"] / "report" / "index.html").read_text(encoding="utf-8")
    log = (runs["objective"] / "log.txt").read_text(encoding="utf-8")
    curve = (runs["objective"] / "report" / "loss.svg").read_text(encoding="utf-8")
    for text in (page, log, curve):
        assert "squared error per token" in text
        assert "nats" not in text and "bits per byte" not in text and "bits/byte" not in text
    assert "parity right" in page and "always the same" in page and "gzip" not in page
    done = octavo("info", runs["objective"], "--parts", own_parts)
    assert done.code == 0, done.err
    named = octavo("compare", runs["objective"], runs["both"], "--parts", own_parts)
    assert named.code == 0 and "validation loss, squared error per token" in named.out, named.err


def test_batches_with_weights_train_and_are_judged_as_text(runs: Mapping[str, Path]) -> None:
    """Only the training counts late tokens more: the validation loss is what it is for every run."""
    evaluation = json.loads((runs["batches"] / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["bits_per_byte"] > 0 and "ngram" in evaluation["baselines"]
    row = rows(runs["batches"], "validation")[-1]
    assert {"loss", "perplexity", "bits_per_byte", "accuracy", "tokens"} <= row.keys() and "unit" not in row


@pytest.mark.parametrize("name", SETTINGS)
def test_it_writes_and_is_planned(
    octavo: Octavo, own_parts: Path, runs: Mapping[str, Path], name: str
) -> None:
    done = octavo("generate", runs[name], "--parts", own_parts, "--tokens", "9")
    assert done.code == 0 and len(done.out.rstrip("\n")) >= 9, done.err
    plan = ("plan", "recipe.yaml", "--text", "text.txt", *SETTINGS[name], "--json")
    done = octavo("--parts", own_parts, *plan)
    assert done.code == 0 and json.loads(done.out)["step_seconds"] > 0, done.err


def test_weights_change_what_is_learned(octavo: Octavo, own_parts: Path, runs: Mapping[str, Path]) -> None:
    plain = octavo.folder / "own-plain"
    train(octavo, own_parts, plain)
    late, even = rows(runs["batches"], "train"), rows(plain, "train")
    assert late[0]["tokens"] == even[0]["tokens"] and late[0]["loss"] != even[0]["loss"]


def test_a_study_says_that_it_compares_text_alone(octavo: Octavo, own_parts: Path) -> None:
    (octavo.folder / "odd.yaml").write_text(STUDY, encoding="utf-8")
    out = octavo.folder / "odd-study"
    done = octavo("--parts", own_parts, "study", "run", "odd.yaml", "--text", "text.txt", "--out", out)
    assert done.code == 2 and "squared error per token" in done.err and "Traceback" not in done.err
