"""octavo tune rl, from the command line to the page: killed on the way it is the same run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from octavo.util.files import file_hash

RECIPE = """\
objective: {kind: policy-gradient, group: 4, tokens: 12, beta: 0.1, reward: {kind: length, least: 4, most: 6, slack: 3}}
training:
  {steps: 8, batch: 16, checkpoint_every: 2, keep: 9, precision: float32, device: cpu, threads: 1,
   optimizer: {kind: adamw, learning_rate: 0.01}, schedule: constant}
evaluation: {every: 2}
logging: {every: 1}
"""
PPO = ("objective.updates=3", "objective.clip=0.2", "objective.kl_in=reward")


@pytest.fixture(scope="module")
def base(octavo: Octavo, finished: Path) -> Path:
    (octavo.folder / "rl.yaml").write_text(RECIPE)
    return finished


def tune(octavo: Octavo, base: Path, out: Path, *more: str) -> Result:
    return octavo("tune", "rl", base, "--recipe", "rl.yaml", "--out", out, "--texts", "32", *more)


@pytest.fixture(scope="module")
def tuned(octavo: Octavo, base: Path) -> Path:
    out = octavo.folder / "rl"
    done = tune(octavo, base, out, *PPO)
    assert done.code == 0, done.err
    assert "what it started from" in done.out and "nats a text" in done.out
    return out


@pytest.mark.parametrize("step", [2, 4])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(
    octavo: Octavo, tuned: Path, tmp_path: Path, step: int
) -> None:
    """In the middle of texts that are learned from several times, too."""
    out = tmp_path / "run"
    shutil.copytree(tuned, out, symlinks=True)
    for later in range(step + 2, 10, 2):
        shutil.rmtree(out / "checkpoints" / f"step-{later:06d}")
    (out / "evaluation.json").unlink()
    done = octavo("tune", "rl", "--out", out, "--resume", "--texts", "32")
    assert done.code == 0, done.err
    assert f"resuming after step {step}" in done.err
    assert results(out) == results(tuned)
    assert file_hash(out / "tuning.json") == file_hash(tuned / "tuning.json")


def test_the_rows_and_the_page_tell_what_happened(octavo: Octavo, tuned: Path) -> None:
    rows = [json.loads(line) for line in (tuned / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "train"]
    assert {"reward", "kl", "entropy", "length", "distinct_2", "flat_groups", "clipped"} <= steps[0].keys()
    assert steps[0]["kl"] == 0.0 and steps[-1]["kl"] > 0
    assert steps[0]["reward"] == steps[2]["reward"] != steps[3]["reward"], (
        "three updates learn from the same texts"
    )
    page = (tuned / "report" / "tuning.html").read_text(encoding="utf-8")
    assert "Side by side" in page and "frontier" in page and "none were held out" in page
    found = octavo("tune", "judge", tuned, "--reward", "question", "--texts", "32", "--json")
    assert json.loads(found.out)["reward"] == {"kind": "question"}
    cost = json.loads((tuned / "tuning.json").read_text())["bits_per_byte"]
    assert cost["before"] and cost["after"] and cost["before"] != cost["after"]


@pytest.mark.slow
def test_seeds_are_judged_together(octavo: Octavo, base: Path, tuned: Path, tmp_path: Path) -> None:
    others = [tmp_path / "one", tmp_path / "two"]
    for seed, out in enumerate(others, 1):
        assert tune(octavo, base, out, f"seed={seed}").code == 0
    judged = octavo("tune", "judge", tuned, *others, "--texts", "32", "--json")
    found = json.loads(judged.out)
    wins = [run["win_rate"]["mean"] for run in found["runs"].values()]
    seeds = found["seeds"]["wins"]
    assert seeds["each"] == pytest.approx(wins) and seeds["low"] <= seeds["mean"] <= seeds["high"]
    said = octavo("tune", "judge", tuned, *others, "--texts", "32")
    assert "Over 3 seeds and 1 prompt (" in said.out, said.err
    other = tmp_path / "question"
    assert tune(octavo, base, other, "objective.reward=question", "seed=3", "training.steps=2").code == 0
    refused(octavo("tune", "judge", tuned, other), "taught by different rewards", "--reward KIND")


def test_a_reward_of_ones_own_fails_now_and_then_and_the_budget_stops(
    octavo: Octavo, base: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "vowels.py"
    mine.write_text("def reward(prompt, text):\n    return 1 / text.count('a')\n")
    out = tmp_path / "run"
    done = tune(octavo, base, out, "--reward", str(mine), "objective.kl_budget=0.0001", "training.batch=32")
    assert done.code == 0, done.err
    assert "runs here" in done.err and "beyond the budget" in done.err and "ZeroDivisionError" in done.err
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "train"]
    assert len(steps) < 8 and any(row["failed_rewards"] for row in steps)
    again = octavo("tune", "rl", "--out", out, "--resume")
    refused(again, f"--parts {mine}")


def test_what_cannot_be_tuned_is_refused(octavo: Octavo, base: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(octavo("tune", "rl", "--reward", "pidgin"), "Which model")
    refused(octavo("tune", "rl", "nowhere", "--reward", "pidgin"), "nowhere")
    refused(tune(octavo, base, out, "training.batch=10"), "groups of 4", "training.batch=8")
    refused(tune(octavo, base, out, "objective.tokens=99"), "objective.tokens=")
    refused(tune(octavo, base, out, "objective.prompt_ends=ZZ"), "no document")
    refused(octavo("train", "rl.yaml", "--text", "text.txt", "--out", out), "start_from")
    refused(tune(octavo, base, out, f"training.teachers.runs={base}"), "teachers")
    refused(octavo("tune", "judge", base), "not tuned by a reward")
    assert not out.exists()
