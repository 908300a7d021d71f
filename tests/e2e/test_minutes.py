"""Runs that go by the clock: they end, can be repeated to the bit, and go on with more minutes."""

from __future__ import annotations

import json
import math
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from e2e.forked import Octavo, until
from octavo.run.deadline import Pace
from octavo.run.folder import RunFolder, seconds_of
from octavo.training.checkpoint_folder import follow
from octavo.training.schedules import cosine

SETTINGS = ("model.layers=1", "model.width=16", "sampling.every=100000", "evaluation.every=0.5")


def pace(out: Path) -> list[list[float]]:
    newest = follow(RunFolder(out).last)
    assert newest is not None
    return json.loads((newest.folder / "state.json").read_text())["pace"]


def last_step(out: Path) -> int:
    return max(row["step"] for row in RunFolder(out).rows())


@pytest.mark.slow
def test_a_run_by_the_clock_is_repeated_and_goes_on(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    minutes = "training.minutes=0.15"
    done = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS, minutes)
    assert done.code == 0, done.err
    assert not re.search(r"step \d+/\d+", done.err), "how many steps fit is found out on the way"
    changes = pace(out)
    assert changes, "40 steps are not what fits"
    assert last_step(out) == changes[-1][1]
    rates = {row["step"]: row["learning_rate"] for row in RunFolder(out).rows() if row["event"] == "train"}
    place = Pace(40, changes).place
    for step, rate in rates.items():
        assert rate == pytest.approx(1e-3 * cosine(place(step - 1), steps=40, floor=0.1), rel=1e-4)

    done = octavo("train", "--replay", out, "--out", tmp_path / "again")
    assert done.code == 0, done.err
    assert pace(tmp_path / "again") == changes

    before = last_step(out)
    done = octavo("train", "--out", out, "--resume", "--minutes", "0.1")
    assert done.code == 0, done.err
    assert last_step(out) > before
    assert "resuming for 0.1 minutes more: " in done.err


def test_who_stops_a_run_by_the_clock_is_told_how_to_use_the_rest_of_its_time(
    octavo: Octavo, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    begun = octavo.start(
        "train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS, "training.minutes=5"
    )
    until(lambda: RunFolder(out).metrics.is_file() and any(RunFolder(out).rows()))
    begun.signal(signal.SIGINT)
    stopped = begun.wait()
    assert stopped.code == 130
    assert (
        f"octavo train --out {out} --resume    uses the time that is left; with --minutes 5 added"
        in stopped.err
    )


@pytest.mark.slow
def test_a_run_and_its_own_teacher_share_the_time_also_where_it_is_killed(
    octavo: Octavo, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    settings = (*SETTINGS, "training.minutes=0.3", "training.teachers.trained=1")
    begun = octavo.start("train", "recipe.yaml", "--text", "text.txt", "--out", out, *settings)
    teacher = RunFolder(out / "teachers" / "1")
    until(lambda: teacher.metrics.is_file() and any(teacher.rows()))
    begun.signal(signal.SIGKILL)
    assert begun.wait().code == -signal.SIGKILL
    done = octavo("train", "--out", out, "--resume")
    assert done.code == 0, done.err
    assert 12 < seconds_of(RunFolder(out)) < 24
    steps = [last_step(folder) for folder in (teacher.path, out)]
    assert min(steps) > 40, "both take more steps than were planned"
    done = octavo("train", "--replay", out, "--out", tmp_path / "again")
    assert done.code == 0 and "bit for bit" in done.out, done.err
    assert [last_step(tmp_path / "again" / part) for part in ("teachers/1", "")] == steps


@pytest.mark.slow
def test_more_minutes_are_taken_however_often_the_text_was_to_be_seen(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    limits = ("training.minutes=0.1", "training.passes=2")
    done = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS, *limits)
    assert done.code == 0, done.err
    before = last_step(out)
    done = octavo("train", "--out", out, "--resume", "--minutes", "0.1")
    assert done.code == 0, done.err
    longer = last_step(out)
    assert longer > 2 * before
    done = octavo("train", "--out", out, "--resume", "--minutes", "0.1", "training.passes=1")
    assert done.code == 0, done.err
    assert last_step(out) == longer, "a limit of one's own counts, and is reached"


@pytest.mark.slow
def test_the_best_model_in_the_time_that_there_is(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = octavo("plan", "--text", "text.txt", "--minutes", "30,1", "--json")
    assert done.code == 0, done.err
    first, second = json.loads(done.out)
    assert (first["minutes"], second["minutes"]) == (1, 30)
    assert second["bits"] <= first["bits"] + 0.01 and first["within"] > 0
    assert all(bool(each["teachers"]) == ("training.teachers" in each["reasons"]) for each in (first, second))
    assert not second["teachers"], "beside a context mixer nobody teaches"

    done = octavo("train", "--text", "text.txt", "--minutes", "0.35", "--out", out, "model.counts.share=0.05")
    assert done.code == 0, done.err
    assert "promise for 0.35 minutes: " in done.err and "on the test split" in done.err
    run = RunFolder(out)
    manifest = json.loads(run.manifest.read_text())
    assert manifest["recipe"] == "minutes" and len(manifest["test_looks"]) == 1
    assert manifest["auto"]["own"] == ["model.counts.share"]
    assert "it knows nothing of your model.counts.share" in done.err
    assert "What was promised" in (run.report / "index.html").read_text()
    config = run.config.read_text()
    assert "minutes: 0.35" in config and "share: 0.05" in config
    assert not (octavo.cache / "promises.jsonl").exists(), "with other settings it says nothing of the law"


@pytest.mark.slow
def test_a_text_of_few_words_comes_through_a_pipe_and_is_read_as_byte_pairs(
    octavo: Octavo, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdefghijklmnop"), 7)) for _ in range(200)]
    text, out = " ".join(random.choice(words, 30_000)), tmp_path / "run"
    own = "model.counts=kneser-ney"  # which needs pairs for it; nothing is noted of this promise
    done = octavo("train", "--text", "-", "--minutes", "0.35", "--out", out, own, stdin=text.encode())
    assert done.code == 0 and "on the test split" in done.err, done.err
    run = RunFolder(out)
    assert "kind: bpe" in run.config.read_text()
    reasons = json.loads(run.manifest.read_text())["auto"]["reasons"]
    assert reasons["tokenizer"].startswith("byte pairs (") and "of bytes" in reasons["tokenizer"]
    evaluation = json.loads(run.evaluation.read_text())
    assert evaluation["bits_per_byte"] < 1.2 * math.log2(200) / 8, "a word is 7 letters and a space"
    done = octavo("generate", out, "--tokens", "40")
    assert done.code == 0 and sum(word in words for word in done.out.split()) > 5


@pytest.mark.slow
def test_a_promise_is_kept_account_of_also_after_a_stop(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("train", "--text", "text.txt", "--minutes", "0.35", "--out", out)
    begun = octavo.start(*command)
    until(lambda: RunFolder(out).metrics.is_file() and any(RunFolder(out).rows()))
    begun.signal(signal.SIGKILL)
    assert begun.wait().code == -signal.SIGKILL
    assert not json.loads(RunFolder(out).manifest.read_text()).get("test_looks")
    done = octavo("train", "--out", out, "--resume")
    assert done.code == 0, done.err
    assert "on the test split" in done.err
    kept = [json.loads(line) for line in (octavo.cache / "promises.jsonl").read_text().splitlines()]
    assert len(kept) == 1 and set(kept[0]) == {"missed", "of"}
    assert all(re.fullmatch("[0-9a-f]{16}", mark) for mark in kept[0]["of"]), "neither text nor path"


def test_what_comes_through_a_pipe_is_read_once_and_found_again(octavo: Octavo, tmp_path: Path) -> None:
    text = "".join(f"{n} times {n} is {n * n}, and so on.\n" for n in range(2400))
    command = ("plan", "--text", "-", "--minutes", "2", "--on", "laptop,rtx4090,laptop", "--json")
    done = octavo(*command, stdin=text.encode(), patch="two_sizes")
    assert done.code == 0, done.err
    assert [each["on"] for each in json.loads(done.out)] == ["laptop", "rtx4090"]


@pytest.mark.slow
def test_the_choice_is_a_recipe_that_can_be_kept(octavo: Octavo, tmp_path: Path) -> None:
    done = octavo("train", "--text", "text.txt", "--minutes", "2", "--dry-run")
    assert done.code == 0, done.err
    (tmp_path / "mine.yaml").write_text(done.out)
    done = octavo("train", tmp_path / "mine.yaml", "--dry-run", "training.minutes=1")
    assert done.code == 0, done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        pytest.param(b"All work and no play makes Jack a dull boy.\n" * 3000, 0, 0.1, id="one line"),
        # Of 8 bits a character, which takes a byte and a half of UTF-8.
        pytest.param(np.random.default_rng(0).bytes(150_000), 5.3, 5.4, id="random bytes"),
        pytest.param(b"A text of 200 letters. " * 9, 0, 1, id="200 letters"),
    ],
)
def test_texts_of_which_nothing_or_everything_is_known(
    octavo: Octavo, tmp_path: Path, text: bytes, least: float, most: float
) -> None:
    (tmp_path / "odd.txt").write_bytes(text)
    settings = ("corpus.encoding=latin-1", "sampling.tokens=20")
    command = (
        "train",
        "--text",
        tmp_path / "odd.txt",
        "--minutes",
        "0.35",
        "--out",
        tmp_path / "run",
        *settings,
    )
    done = octavo(*command)
    assert done.code == 0, done.err
    assert least <= json.loads(RunFolder(tmp_path / "run").evaluation.read_text())["bits_per_byte"] <= most


def test_a_text_that_is_too_short_for_minutes(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("A text of 90 letters. " * 4)
    done = octavo("train", "--text", tmp_path / "short.txt", "--minutes", "0.35")
    assert done.code == 2 and "too short for --minutes" in done.err, done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--minutes", "0"), "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not 0"),
        (("--minutes", "-1"), "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not -1"),
        (("--minutes", "nan"), "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not nan"),
        (("--minutes", "five"), "five"),
        (("--minutes", "0.2"), "20 seconds to 12 hours), not 0.2"),
        (("--minutes", "10000"), "20 seconds to 12 hours), not 10000"),
        (("quick", "--minutes", "1"), "--minutes chooses the recipe"),
        (("--out", "nowhere", "--resume", "--minutes", "0"), "--minutes must be above 0, not 0"),
        (("--resume", "--minutes", "1"), "--resume needs the folder"),
    ],
)
def test_minutes_that_are_none(octavo: Octavo, arguments: tuple[str, ...], said: str) -> None:
    done = octavo("train", *arguments, "--text", "text.txt")
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--minutes", "1,five"), "'1,five' is something else"),
        (("--minutes", ""), "something else"),
        (("--minutes", "1,0"), "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not 0"),
        (("quick", "--minutes", "1"), "no recipe"),
        (("--minutes", "1", "--on", "abacus"), "There is no machine 'abacus'"),
    ],
)
def test_minutes_that_cannot_be_planned(octavo: Octavo, arguments: tuple[str, ...], said: str) -> None:
    done = octavo("plan", *arguments, "--text", "text.txt")
    assert done.code == 2
    assert said in done.err


def test_settings_that_contradict_the_clock(octavo: Octavo) -> None:
    text = ("--text", "text.txt", "--dry-run")
    for setting, said in (
        ("training.epochs=2", "give minutes or epochs, not both"),
        ("parallel=ddp", "training.minutes is for one process"),
    ):
        done = octavo("train", "recipe.yaml", *text, "training.minutes=1", "training.steps=~", setting)
        assert done.code == 2 and said in done.err, done.err
