"""octavo tune sft: from conversations to a run that answers; killed and resumed, planned, evaluated; bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from e2e.test_resume import results

QUICK = (
    "validation=0.3",
    "training.epochs=2",
    "training.batch=4",
    "training.device=cpu",
    "training.precision=float32",
    "training.threads=1",
    "training.checkpoint_every=3",
    "logging.every=1",
    "sampling.tokens=8",
)


def chats(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def talk(octavo: Octavo) -> Path:
    """Conversations in the words of the base; its context has 16 positions."""
    records = [
        {"prompt": f"{who}?", "completion": f"{what}."}
        for who in ("who", "a dog", "fox")
        for what in ("it", "cat")
    ]
    records += [
        {"messages": [{"role": "user", "content": n * "o"}, {"role": "assistant", "content": "no"}]}
        for n in range(1, 9)
    ]
    return chats(
        octavo.folder / "talk.jsonl", [*records, {"instruction": "who saw the fox that ran?", "output": "it"}]
    )


def sft(octavo: Octavo, base: Path, out: Path, text: Path | str, *more: str, **options: Any) -> Result:
    return octavo("tune", "sft", base, "--text", text, "--out", out, *QUICK, *more, **options)


@pytest.fixture(scope="module")
def tuned(octavo: Octavo, finished: Path, talk: Path) -> Path:
    """A tuned run; read it, don't write."""
    out = octavo.folder / "chat"
    done = sft(octavo, finished, out, talk)
    assert done.code == 0, done.err
    assert (
        "1 conversation is longer than the context of 16 tokens and left out; the longest has 31" in done.err
    )
    assert "nats per token of the answers" in done.err and "what it started from" in done.err
    assert "user: " in done.err and "assistant: " in done.err
    return out


def test_a_tuned_run_is_a_run_like_any_other(octavo: Octavo, tuned: Path, talk: Path) -> None:
    found = json.loads((tuned / "evaluation.json").read_text())
    assert set(found["baselines"]) == {"uniform", "start"} and "bits_per_byte" not in found
    assert (
        found["answers"]["seeds"] == 3
        and "Answers, before and after" in (tuned / "report/index.html").read_text()
    )
    evaluated = octavo("eval", tuned, "--json")
    assert evaluated.code == 0, evaluated.err
    assert json.loads(evaluated.out)["val_loss"] == pytest.approx(found["val_loss"], rel=1e-6)
    elsewhere = octavo("eval", tuned, "--text", talk, "--json")
    assert elsewhere.code == 0 and json.loads(elsewhere.out)["tokens"] > found["tokens"], elsewhere.err
    assert octavo("generate", tuned, "--tokens", "5").code == 0
    planned = octavo(
        "plan",
        "tune-sft",
        "--text",
        talk,
        f"training.start_from={octavo.folder / 'finished'}",
        *QUICK,
        "--json",
    )
    assert planned.code == 0 and json.loads(planned.out)["steps"] == max(
        row["step"] for row in rows(tuned)
    ), planned.err


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_killed_it_goes_on_to_the_same_bits(
    octavo: Octavo, finished: Path, tuned: Path, talk: Path, tmp_path: Path
) -> None:
    counted = sft(octavo, finished, tmp_path / "counted", talk, watch=tmp_path / "counted", die_at=10**9)
    assert counted.code == 0, counted.err
    base = Path(shutil.copytree(finished, tmp_path / "base", symlinks=True))
    out = tmp_path / "run"
    assert sft(octavo, base, out, talk, watch=out, die_at=int(0.6 * counted.operations)).code < 0
    assert (out / "manifest.json").exists()
    shutil.rmtree(base)
    done = octavo("train", "--out", out, "--resume")
    assert done.code == 0, done.err
    found, expected = results(out), results(tuned)
    judged: Any = expected["judged"]
    cost = judged.pop("cost")["bits_per_byte"]  # only where the base is still there
    assert found == expected and cost["before"] != cost["after"]
    assert "what the tuning cost is not known" in done.err


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (
            [{"messages": [{"role": "assistant", "content": "it"}]}],
            ("line 16", "begins with the assistant", "For example"),
        ),
        (
            [{"messages": [{"role": "user", "content": "who?"}]}],
            ("line 16", "does not end with the assistant", "For example"),
        ),
        ([{"question": "who?"}], ("line 16", "fits no form", "'question'")),
        (
            [{"prompt": "who?", "completion": "ÜBER"}],
            ("vocabulary lacks", "'Ü'", "start from a run that has them"),
        ),
    ],
)
def test_bad_conversations_are_named(
    octavo: Octavo, finished: Path, tmp_path: Path, records: list[Any], said: tuple[str, ...]
) -> None:
    text = chats(
        tmp_path / "bad.jsonl",
        [*({"prompt": "who" + n * "o", "completion": "it"} for n in range(15)), *records],
    )
    refused(sft(octavo, finished, tmp_path / "run", text), *said)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_tuned(octavo: Octavo, finished: Path, talk: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(sft(octavo, tmp_path / "none", out, talk), "does not exist")
    refused(octavo("plan", "tune-sft"), "names none", "--base RUN")
    assert octavo("plan", "tune-sft", "--base", finished, "--no-time").code == 0
    few = chats(tmp_path / "few.jsonl", [{"prompt": "who?", "completion": "it"}])
    alone = sft(octavo, finished, out, few)
    refused(alone, "would be empty", "Give more text")
    assert "contiguous" not in alone.err  # which would cut conversations apart
    refused(octavo("train", "tune-sft", "--text", talk, "--out", out), "training.start_from=RUN")
    refused(sft(octavo, finished, out, talk, "split=contiguous"), "would cut conversations apart")
    refused(sft(octavo, finished, out, talk, "tokenizer=byte"), "has its model and its tokenizer")
    refused(
        sft(octavo, finished, out, talk, "objective=next-token"),
        "takes text, and the corpus holds conversations",
    )
    refused(
        sft(octavo, finished, out, talk, "model.context=3"),
        "longer than the context of 3 tokens; the shortest has 6",
    )
    refused(sft(octavo, finished, out, "text.txt"), "no JSON file")
    half = Path(shutil.copytree(finished, tmp_path / "half", symlinks=True))
    for step in sorted((half / "checkpoints").iterdir())[1:]:
        shutil.rmtree(step)
    refused(sft(octavo, half, out, talk), "is not finished")
    assert not out.exists()


@pytest.mark.parametrize("verb", ["sft", "dpo"])
def test_a_dry_run_reads_its_data(octavo: Octavo, finished: Path, talk: Path, verb: str) -> None:
    """What a training would refuse at once is refused here, and good data changes nothing."""
    bad = chats(octavo.folder / f"bad-{verb}.jsonl", [{"prompt": "who?", "completion": 7}, {"chosen": "no"}])
    pairs = chats(
        octavo.folder / f"good-{verb}.jsonl",
        [{"prompt": n * "o", "chosen": "it.", "rejected": "no."} for n in range(1, 9)],
    )
    dry = ("--dry-run", "validation=0.3")
    for text, said in ((bad, f"bad-{verb}.jsonl"), (octavo.folder / "none.jsonl", "none.jsonl")):
        refused(octavo("tune", verb, finished, "--text", text, *dry), said)
    good = talk if verb == "sft" else pairs
    refused(octavo("tune", verb, finished, "--text", good, *dry, "model.context=2"), "context of 2")
    before = set(octavo.folder.glob("[!.]*"))
    done = octavo("tune", verb, finished, "--text", good, *dry)
    assert done.code == 0 and done.out.startswith("description:"), done.err
    assert set(octavo.folder.glob("[!.]*")) == before
