"""octavo tune dpo: from pairs to a run that prefers what was chosen; killed and resumed, planned; bad input."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from e2e.test_tune import chats, rows

QUICK = (
    "validation=0.3",
    "training.epochs=3",
    "training.batch=4",
    "training.optimizer.learning_rate=0.003",
    "training.device=cpu",
    "training.precision=float32",
    "training.threads=1",
    "training.checkpoint_every=3",
    "sampling.tokens=8",
)
PAIRS = [
    {"prompt": f"{who}?", "chosen": f"{what}.", "rejected": f"{what}!"}
    for who in ("who", "a", "fox", "it", "cat", "no")
    for what in ("it", "cat", "to")
]


def tune(octavo: Octavo, base: Path, out: Path, text: Path | str, *more: str, **options: Any) -> Result:
    return octavo("tune", "dpo", base, "--text", text, "--out", out, *QUICK, *more, **options)


@pytest.fixture(scope="module")
def pairs(octavo: Octavo) -> Path:
    """Pairs in the words of the base, whose context has 16 positions; one of equals, and one that is too long."""
    odd = [
        {"prompt": "who?", "chosen": "it.", "rejected": "it."},
        {"prompt": "who saw the fox?", "chosen": "it.", "rejected": "no"},
    ]
    return chats(octavo.folder / "pairs.jsonl", [*PAIRS, *odd])


@pytest.fixture(scope="module")
def tuned(octavo: Octavo, finished: Path, pairs: Path) -> Path:
    """A tuned run; read it, don't write."""
    out = octavo.folder / "dpo"
    done = tune(octavo, finished, out, pairs)
    assert done.code == 0, done.err
    assert "line 19: its two answers are equal" in done.err
    assert "1 pair is longer than the context of 16 tokens and left out; the longest side has 23" in done.err
    assert "pairs/s" in done.err and "held-out pairs; always taking the longer one" in done.err
    return out


def test_a_tuned_run_is_a_run_like_any_other(
    octavo: Octavo, finished: Path, tuned: Path, pairs: Path
) -> None:
    found = json.loads((tuned / "evaluation.json").read_text())
    start = found["baselines"]["start"]
    assert start["loss"] == pytest.approx(math.log(2), rel=1e-6) and start["margin"] == 0.0
    assert found["val_loss"] < start["loss"] and found["margin"] > 0
    assert found["chosen"] - found["rejected"] > start["chosen"] - start["rejected"]
    share = found["preferences"]["accuracy"]
    assert share["low"] < share["mean"] <= share["high"] and found["preferences"]["pairs"] == found["tokens"]
    first = rows(tuned)[0]
    assert first["event"] == "validation" and first["loss"] == pytest.approx(math.log(2), rel=1e-6)
    page = (tuned / "report" / "index.html").read_text(encoding="utf-8")
    assert "Both answers" in page and "Likelihood of both answers" in page and "pairs seen" in page
    evaluated = octavo("eval", tuned, "--json")
    assert json.loads(evaluated.out)["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6), evaluated.err
    elsewhere = octavo("eval", tuned, "--text", pairs, "--json")
    assert json.loads(elsewhere.out)["tokens"] == len(PAIRS), elsewhere.err
    newest = max((tuned / "checkpoints").iterdir())
    refused(octavo("eval", newest), "compares with what it started from")
    assert octavo("generate", tuned, "--tokens", "5").code == 0
    planned = octavo("plan", "tune-dpo", "--text", pairs, f"training.start_from={finished}", *QUICK, "--json")
    assert json.loads(planned.out)["steps"] == max(row["step"] for row in rows(tuned)), planned.err


@pytest.mark.slow
def test_killed_it_goes_on_to_the_same_bits(
    octavo: Octavo, finished: Path, tuned: Path, pairs: Path, tmp_path: Path
) -> None:
    counted = tune(octavo, finished, tmp_path / "counted", pairs, watch=tmp_path / "counted", die_at=10**9)
    base = Path(shutil.copytree(finished, tmp_path / "base", symlinks=True))
    out = tmp_path / "run"
    assert tune(octavo, base, out, pairs, watch=out, die_at=int(0.6 * counted.operations)).code < 0
    assert (out / "manifest.json").exists()
    shutil.rmtree(base)
    done = octavo("train", "--out", out, "--resume")
    assert done.code == 0, done.err
    found, expected = results(out), results(tuned)
    judged: Any = expected["judged"]
    del judged["cost"]  # only where the base is still there
    assert found == expected


@pytest.mark.slow
def test_it_stands_beneath_the_ceiling_beside_others(
    octavo: Octavo, finished: Path, tuned: Path, pairs: Path, tmp_path: Path
) -> None:
    other, asked = tmp_path / "ipo", ("--reward", "question", "--texts", "16")
    assert tune(octavo, finished, other, pairs, "objective.form=ipo").code == 0
    refused(octavo("tune", "judge", tuned), "No reward taught", "--reward KIND")
    judged = octavo("tune", "judge", tuned, other, *asked, "--json", patch="drawn")
    assert judged.code == 0, judged.err
    found = json.loads(judged.out)
    assert found["seeds"] is None, "the same seed from the same start, tuned in two ways"
    for run in (tuned, other):
        figures = found["runs"][str(run)]
        assert figures["learned_from"] == "dpo" and figures["tuned"]["kl"]["mean"] > 0
        page = (run / "report" / "tuning.html").read_text(encoding="utf-8")
        assert all(f"<!-- {sign} " in page for sign in ("● " + run.name,)) and "On the way" not in page
        assert "<!-- ■ " in page
    assert found["runs"][str(tuned)]["base"] == found["runs"][str(other)]["base"]
    refused(octavo("tune", "judge", tuned, tuned, *asked), "named twice")
    refused(octavo("tune", "judge"), "Which run")
    refused(octavo("tune", "judge", finished, *asked), "not tuned by a reward")


@pytest.mark.slow
def test_what_cannot_be_tuned_is_refused(octavo: Octavo, finished: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(octavo("train", "tune-dpo", "--text", pairs, "--out", out), "training.start_from=RUN")
    refused(tune(octavo, finished, out, pairs, "model.context=4"), "none fits into the context of 4 tokens")
    refused(tune(octavo, finished, out, pairs, f"training.teachers.runs={finished}"), "training.teachers")
    refused(tune(octavo, finished, out, pairs, "objective=answers"), "takes conversations")
    refused(tune(octavo, finished, out, pairs, "objective.beta=0"), "objective.beta")
    equal = chats(tmp_path / "equal.jsonl", [{"prompt": "who?", "chosen": "it.", "rejected": "it."}])
    refused(tune(octavo, finished, out, equal), "equal")
    for record, said in (
        ({"prompt": "who?", "chosen": "it."}, "it lacks rejected"),
        ({"prompt": "who?", "chosen": "it.", "rejected": 3}, "holds no text but int"),
        ({"prompt": "who?", "chosen": "Ü", "rejected": "no"}, "vocabulary lacks"),
    ):
        text = chats(tmp_path / "bad.jsonl", [*PAIRS, record])
        refused(tune(octavo, finished, out, text), said)
    assert not out.exists()
