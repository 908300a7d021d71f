"""octavo tune rl on a run that was tuned on conversations: asked by the template, judged by texts, killed, the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from e2e.test_tune import chats, sft
from octavo.util.files import file_hash

RECIPE = """\
objective: {kind: policy-gradient, group: 4, beta: 0.1, reward: {kind: length, least: 1, most: 2, slack: 2}}
training:
  {steps: 4, batch: 16, checkpoint_every: 2, keep: 9, precision: float32, device: cpu, threads: 1,
   optimizer: {kind: adamw, learning_rate: 0.01}, schedule: constant}
evaluation: {every: 2}
logging: {every: 1}
sampling: {tokens: 8}
"""
ASKED = """\
def reward(prompt, text):
    if "<|" in prompt or "<|" in text or prompt != prompt.strip():
        raise ValueError(f"{prompt!r} {text!r}")
    return float(prompt in ("who?", "fox?")) + text.count("o")
"""


CONVERSATIONS = ("corpus={kind: wishes}", "batches=conversations", "split=prompts")


@pytest.fixture(scope="module")
def answers(octavo: Octavo, finished: Path) -> Path:
    """A run that answers; its context has 16 positions."""
    (octavo.folder / "rl-chat.yaml").write_text(RECIPE)
    records = [{"prompt": f"{who}?", "completion": what} for who in ("who", "fox", "dog") for what in "aiou"]
    out = octavo.folder / "answers"
    done = sft(octavo, finished, out, chats(octavo.folder / "talks.jsonl", records))
    assert done.code == 0, done.err
    return out


def tune(octavo: Octavo, base: Path, out: Path, *more: object, texts: int = 16, **options: object) -> Result:
    return octavo(
        "tune", "rl", base, "--recipe", "rl-chat.yaml", "--out", out, "--texts", texts, *more, **options
    )


def test_a_run_that_answers_is_tuned_by_its_own_conversations(
    octavo: Octavo, answers: Path, tmp_path: Path
) -> None:
    """The reward sees what users said and what was answered, and nothing of the template."""
    reward, out = tmp_path / "asked.py", tmp_path / "run"
    reward.write_text(ASKED)
    done = tune(octavo, answers, out, "--reward", reward)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if row["event"] == "train"]
    assert len(steps) == 4 and not any(row["failed_rewards"] for row in steps) and steps[-1]["kl"] > 0
    found = json.loads((out / "evaluation.json").read_text())
    assert "bits_per_byte" not in found and found["cost"]["bits_per_byte"].keys() == {"before", "after"}
    figures = json.loads((out / "tuning.json").read_text())
    assert figures["bits_per_byte"] == found["cost"]["bits_per_byte"]
    page = (out / "report" / "tuning.html").read_text(encoding="utf-8")
    assert "who?" in page and "&lt;|" not in page and "of the answers" in done.err


@pytest.mark.slow
def test_its_best_answers_are_conversations_and_pairs(octavo: Octavo, answers: Path, tmp_path: Path) -> None:
    words = ("tune", "best", answers, "--reward", "{kind: length, least: 1, most: 1}")
    best, pairs = tmp_path / "best.jsonl", tmp_path / "pairs.jsonl"
    done = octavo(*words, "--out", best)
    assert done.code == 0 and "of all answers" in done.out and "1.20 nats from the run" in done.out, done.err
    found = [json.loads(line)["messages"] for line in best.read_text().splitlines()]
    assert found and all([one["role"] for one in each] == ["user", "assistant"] for each in found)
    assert {each[0]["content"] for each in found} <= {"who?", "fox?", "dog?"}
    refused(octavo(*words, "--out", best), "exists")
    assert octavo(*words, "--out", best, "--force").out == done.out
    done = octavo(*words, "--out", pairs, "--pairs", "--samples", "16")
    both = [json.loads(line) for line in pairs.read_text().splitlines()]
    assert done.code == 0 and both and all(one["chosen"] != one["rejected"] for one in both)
    same = (
        "tune",
        "best",
        answers,
        "--reward",
        "{kind: words, never: [zzz]}",
        "--out",
        tmp_path / "no.jsonl",
    )
    refused(octavo(*same, "--pairs"), "two answers of different worth", "--samples")
    refused(octavo(*words, "--out", tmp_path / "best.txt"), "no .jsonl file", "best.jsonl")
    base = octavo.folder / "finished"
    refused(
        octavo("tune", "best", base, *words[3:], "--out", tmp_path / "x.jsonl"), "not tuned on conversations"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.jsonl", "pairs.jsonl"]


@pytest.mark.slow
def test_what_its_best_answers_teach_is_judged_beside_the_others(
    octavo: Octavo, answers: Path, tmp_path: Path
) -> None:
    reward = "{kind: length, least: 1, most: 2, slack: 2}"
    best = tmp_path / "best.jsonl"
    mine = chats(tmp_path / "mine.jsonl", [{"prompt": f"{a}{b}?"} for a in "abcdef" for b in "ox"])
    asked = octavo("tune", "best", answers, "--reward", reward, "--prompts", mine, "--out", best)
    assert asked.code == 0, asked.err
    run = tmp_path / "learned"
    done = sft(octavo, answers, run, best)
    assert done.code == 0, done.err
    judged = octavo("tune", "judge", run, "--reward", reward, "--texts", "16")
    assert judged.code == 0 and "Best-of-n of what it started from" in judged.out, judged


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_bits(
    octavo: Octavo, answers: Path, tmp_path: Path
) -> None:
    """Wherever it was; the run that it started from may be gone."""
    counted = tune(octavo, answers, tmp_path / "counted", watch=tmp_path / "counted", die_at=10**9)
    assert counted.code == 0, counted.err
    expected = results(tmp_path / "counted")
    for number, share in enumerate((0.35, 0.6, 0.8)):
        out = tmp_path / f"run{number}"
        died = tune(octavo, answers, out, watch=out, die_at=int(share * counted.operations))
        assert died.code < 0 and (out / "manifest.json").exists()
        done = octavo("tune", "rl", "--out", out, "--resume", "--texts", "16")
        assert done.code == 0, done.err
        assert results(out) == expected
        assert file_hash(out / "tuning.json") == file_hash(tmp_path / "counted" / "tuning.json")


@pytest.mark.slow
def test_prompts_of_ones_own_and_what_does_not_fit(octavo: Octavo, answers: Path, tmp_path: Path) -> None:
    mine = chats(
        tmp_path / "mine.jsonl", [{"prompt": "ox?"}, {"prompt": "who saw the"}, {"prompt": "a dog?"}]
    )
    done = tune(octavo, answers, tmp_path / "run", "--prompts", mine, "training.steps=2", texts=32)
    assert done.code == 0, done.err
    assert "1 prompt leaves too little" in done.err
    figures = json.loads((tmp_path / "run" / "tuning.json").read_text())
    assert figures["prompts"] == 2 and not figures["prompts_held_out"]
    ceiling = octavo("tune", "ceiling", answers, "--reward", "question", "--prompts", mine, "--samples", "16")
    assert ceiling.code == 0 and "after 2 prompts" in ceiling.out, ceiling.err
    out = tmp_path / "other"
    refused(tune(octavo, answers, out, "objective.prompt_ends=?"), "prompt_ends is for texts")
    refused(tune(octavo, answers, out, "objective.answers=false"), "takes text", "holds conversations")
    refused(tune(octavo, answers, out, "objective.tokens=99"), "none leaves 99 tokens", "objective.tokens")
    wrong = chats(tmp_path / "wrong.jsonl", [{"prompt": "ox?"}, {"prompt": "ÜBER"}])
    refused(tune(octavo, answers, out, "--prompts", wrong), "vocabulary lacks", "Ü")
    base = octavo.folder / "finished"
    refused(
        tune(
            octavo,
            base,
            out,
            "objective.answers=true",
            "corpus={kind: wishes}",
            "batches=conversations",
            "split=prompts",
        ),
        "no chat template",
    )
    assert not out.exists()
