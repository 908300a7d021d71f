"""octavo tune reward: a reward from pairs, and a run that learns from it; resumed, refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from e2e.test_tune import chats
from e2e.test_tune_rl import RECIPE
from octavo.tokenizers.chat import CHAT_TOKENS

pytestmark = pytest.mark.slow
QUICK = (
    "validation=0.3",
    "training.epochs=3",
    "training.batch=4",
    "training.keep=9",
    "training.optimizer.learning_rate=0.01",
    "training.device=cpu",
    "training.precision=float32",
    "training.threads=1",
    "training.checkpoint_every=3",
)
TEXTS = [
    {"chosen": f"{a} {b}.", "rejected": f"{a} {b}!"} for a in ("who", "a", "fox") for b in ("it", "cat", "no")
]


def tune(octavo: Octavo, base: Path, out: Path, *more: str) -> Result:
    text = chats(octavo.folder / "texts.jsonl", TEXTS)
    return octavo("tune", "reward", base, "--text", text, "--out", out, *QUICK, *more)


@pytest.fixture(scope="module")
def learned(octavo: Octavo, finished: Path) -> Path:
    """A reward that was learned; read it, don't write."""
    out = octavo.folder / "reward"
    done = tune(octavo, finished, out)
    assert done.code == 0, done.err
    assert (
        "held-out pairs" in done.err
        and "expected calibration error" in done.err
        and "it writes" not in done.err
    )
    return out


def test_a_reward_is_a_run_that_judges_and_does_not_write(octavo: Octavo, learned: Path) -> None:
    found = json.loads((learned / "evaluation.json").read_text())
    assert found["baselines"]["start"]["loss"] == pytest.approx(math.log(2), abs=0.02)
    assert found["preferences"]["calibration"]["bins"] and "memorization" not in found
    page = (learned / "report" / "index.html").read_text(encoding="utf-8")
    assert "How sure, and how often right" in page and "Both answers" not in page
    assert octavo("eval", learned, "--json").code == 0
    refused(octavo("generate", learned), "judges texts, and writes none")
    asked = octavo("tune", "best", learned, "--reward", "question", "--out", "best.jsonl")
    refused(asked, "judges texts, and writes none")


def test_a_run_learns_from_it_and_is_judged_by_another(
    octavo: Octavo, finished: Path, learned: Path, tmp_path: Path
) -> None:
    (tmp_path / "rl.yaml").write_text(RECIPE)
    out, kind = tmp_path / "rl", f"{{kind: model, run: {learned}}}"
    done = octavo(
        "tune",
        "rl",
        finished,
        "--recipe",
        tmp_path / "rl.yaml",
        "--out",
        out,
        "--texts",
        "32",
        "--reward",
        kind,
    )
    assert done.code == 0, done.err
    assert "This judge is a learned reward" in done.out
    judged = octavo("tune", "judge", out, "--reward", "question", "--texts", "32", "--json")
    assert judged.code == 0, judged.err
    found = json.loads(judged.out)
    assert found["reward"]["kind"] == "question" and found["taught_by"]["reward"]["kind"] == "model"
    ceiling = octavo(
        "tune", "ceiling", finished, "--reward", kind, "--samples", "32", "--tokens", "9", "--json"
    )
    assert json.loads(ceiling.out)["reward"]["run"] == str(learned), ceiling.err
    refused(
        octavo("tune", "ceiling", finished, "--reward", f"{{kind: model, run: {finished}}}"),
        "learned no reward",
    )


def test_cut_off_it_goes_on_to_the_same_bits(octavo: Octavo, learned: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(learned, tmp_path / "run", symlinks=True))
    for checkpoint in sorted((out / "checkpoints").iterdir())[1:]:
        shutil.rmtree(checkpoint)
    (out / "evaluation.json").unlink()
    done = octavo("train", "--out", out, "--resume")
    assert done.code == 0 and "resuming after step" in done.err, done.err
    assert results(out) == results(learned)


def test_what_is_no_reward_is_refused(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out, names = tmp_path / "run", json.dumps([*CHAT_TOKENS, "<|reward|>", "<|x|>"])
    refused(tune(octavo, finished, out, f"tokenizer.special={names}"), "must be the last token")
    refused(octavo("tune", "rl", finished, "--reward", "{kind: model}"), "run")
    wrong = f"{{kind: model, run: {finished}}}"
    refused(octavo("tune", "rl", finished, "--reward", wrong, "--out", out), "has learned no reward")
    assert not out.exists()


def test_comparisons_of_its_own_texts_teach_it(octavo: Octavo, tmp_path: Path) -> None:
    lines = (
        "corpus.documents=lines",
        "split=documents",
        "batches=documents",
        "model.context=48",
        "tokenizer=word",
    )
    base = tmp_path / "base"
    words, text = ("a", "fox", "cat", "who"), tmp_path / "text.txt"
    text.write_text("".join(f"{a} {b} {c}.\n" for a in words for b in words for c in words))
    assert octavo("train", "recipe.yaml", "--text", text, "--out", base, *lines).code == 0
    made = f"corpus={{kind: comparisons, run: {base}, reward: {{kind: words, must: [a]}}, pairs: 8}}"
    found = []
    for out in (tmp_path / "one", tmp_path / "two"):
        done = octavo("tune", "reward", base, "--out", out, *QUICK, made, "split=documents")
        assert done.code == 0 and "held-out pairs" in done.err, done.err
        found.append(json.loads((out / "manifest.json").read_text())["data"])
    assert found[0] == found[1]
    alike = made.replace("must: [a]", "never: [nobody-says-this]").replace("pairs: 8", "pairs: 1")
    said = octavo("tune", "reward", base, "--out", tmp_path / "none", alike)
    refused(said, "0 differ by the reward 'words'; 1 are asked for", "fewer pairs")
