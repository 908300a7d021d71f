"""Pairs from a file to translations, through the command line: both forms of model, and what is refused."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from e2e.forked import Octavo, Result
from octavo.run.run import Run
from octavo.tasks.translation.average import average
from octavo.training.checkpoint_folder import list_checkpoints

COMMON = (
    "corpus={kind: pairs}",
    "split=documents",
    "tokenizer={kind: word, lines: keep}",
    "objective={kind: given-source, label_smoothing: 0.1}",
    "training={steps: 120, batch: 16, keep: 3, checkpoint_every: 20, threads: 1, precision: float32, device: cpu}",
    "training.schedule={kind: inverse-root, warmup: 20, scale: 50}",
    "training.optimizer.learning_rate=0.01",
    "evaluation.every=40",
)
FORMS = {
    "encoder": (
        "batches=pairs",
        "model={kind: encoder-decoder, layers: 1, width: 32, heads: 2, context: 12, tied: true}",
    ),
    "separate": (
        "batches=pairs",
        "tokenizer={kind: separate, source: {kind: word, lines: keep}, target: {kind: char}}",
        "model={kind: encoder-decoder, layers: 1, width: 32, heads: 2, context: 16, tied: true}",
        "model.shared_embedding=false",
        "test=0.1",
    ),
    "prefix": ("batches=joined-pairs", "model={layers: 2, width: 32, heads: 2, context: 20}"),
}

EVERY = [pytest.param(name, marks=pytest.mark.slow if name == "separate" else ()) for name in FORMS]


@pytest.fixture(scope="module")
def runs(octavo: Octavo) -> Runs:
    """Each source word has one of the target, in the same order."""
    draw = random.Random(5)
    words = {" ".join(draw.choices("abcdef", k=draw.randint(1, 4))) for _ in range(1500)}
    rows = [f"{one}\t{' '.join(word * 2 for word in one.split())}\n" for one in sorted(words)]
    (octavo.folder / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    return Runs(octavo)


class Runs(dict[str, Path]):
    """A run of each form, made when it is first asked for."""

    def __init__(self, octavo: Octavo) -> None:
        super().__init__()
        self.octavo = octavo

    def __missing__(self, name: str) -> Path:
        out = self.octavo.folder / f"pairs-{name}"
        done = train(self.octavo, out, name)
        assert done.code == 0, done.err
        self[name] = out
        return out


def train(octavo: Octavo, out: Path, name: str, *more: str) -> Any:
    return octavo("train", "recipe.yaml", "--text", "pairs.tsv", "--out", out, *COMMON, *FORMS[name], *more)


def losses(run: Path) -> list[tuple[int, float]]:
    rows = (json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [(row["step"], row["loss"]) for row in rows if row["event"] == "train"]


@pytest.mark.parametrize("name", EVERY)
def test_it_learns_and_is_judged_and_shown(runs: dict[str, Path], name: str) -> None:
    found = losses(runs[name])
    assert found[-1][1] < 0.75 * found[0][1]
    evaluation = json.loads((runs[name] / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["unit"] == "nats per target token" and "memorization" not in evaluation
    assert len(evaluation["translations"]["examples"]) == 20
    ways = [way["bleu"]["score"] for way in evaluation["translations"]["scores"]["ways"]]
    assert len(ways) == 4 and ways == sorted(ways, reverse=True)
    page = (runs[name] / "report" / "index.html").read_text(encoding="utf-8")
    assert f"BLEU {ways[0]:.1f} and chrF" in page and "quote comes from others" in page
    assert "What it translates" in page and ("Where it looks" in page) == (name != "prefix")


@pytest.mark.parametrize("name", EVERY)
def test_lines_in_lines_out(octavo: Octavo, runs: dict[str, Path], name: str) -> None:
    (octavo.folder / "new.txt").write_text("a b\n\nc d\n", encoding="utf-8")
    done = octavo("translate", runs[name], "--text", "new.txt")
    lines = done.out.split("\n")
    assert done.code == 0 and len(lines) == 4 and lines[1] == "" and lines[0] and lines[2], done.err
    assert octavo("translate", runs[name], stdin=b"a b\n\nc d\n").out == done.out
    endless = octavo("translate", runs[name], stdin=b"a b\n" * 1_000_000, unread=(1,), patch="limited")
    assert endless == Result(0, "", "")  # nobody reads it
    done = octavo("translate", runs[name], "--text", "new.txt", "--best", "2", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["source"] for row in rows] == ["a b", "", "c d"]
    scores = [one["score"] for one in rows[0]["translations"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    best = rows[0]["translations"][0]
    (octavo.folder / "given.tsv").write_text(f"a b\t{best['text']}\n", encoding="utf-8")
    done = octavo("translate", runs[name], "--score", "given.tsv", "--json")
    given = json.loads(done.out)
    assert given["log_probability"] == pytest.approx(best["log_probability"], abs=1e-3), done.err
    done = octavo("translate", runs[name], "--prompt", "a b", "--average", "3")
    assert done.code == 0 and "steps 120, 100, 80" in done.err, done.err


@pytest.mark.parametrize("name", EVERY)
def test_it_goes_on_to_the_same_bits(
    octavo: Octavo, runs: dict[str, Path], name: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(runs[name], out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > 80:
            shutil.rmtree(checkpoint.folder)
    done = train(octavo, out, name, "--resume")
    assert done.code == 0 and "resuming after step 80" in done.err, done.err
    assert losses(out) == losses(runs[name])


def test_pairs_are_read_from_the_fields_that_the_run_names(octavo: Octavo, runs: dict[str, Path]) -> None:
    rows = [{"de": one + other, "en": f"{one} {other}"} for one in "abcdef" for other in "abcdef"]
    (octavo.folder / "named.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
    )
    (octavo.folder / "recipe.yaml").touch()
    given = ("recipe.yaml", "--text", "named.jsonl", *COMMON, *FORMS["encoder"], "corpus.fields=[en,de]")
    done = octavo("train", *given, "validation=0.3", "training.steps=2", "--out", "named")
    assert done.code == 0, done.err
    again = octavo("train", "--replay", "named", "--out", "named-again")
    assert again.code == 0 and "bit for bit" in again.out + again.err, again.err
    scored = octavo("translate", "named", "--score", "named.jsonl")
    assert scored.code == 0 and "36 pairs" in scored.err, scored.err
    refused = octavo("translate", runs["encoder"], "--score", "named.jsonl")
    assert refused.code == 2 and "has no field 'source'" in refused.err


def test_an_average_is_the_mean_of_the_weights(runs: dict[str, Path]) -> None:
    run = Run.open(runs["encoder"])
    assert average(run, 2) == [120, 100]
    folders = [runs["encoder"] / "checkpoints" / f"step-{step:06d}" for step in (120, 100)]
    one, other = (load_file(folder / "model.safetensors") for folder in folders)
    own = dict(run.model.named_parameters())
    for name in one:
        assert np.allclose(own[name].detach().numpy(), (one[name] + other[name]) / 2, atol=1e-7), name


def test_what_is_refused(octavo: Octavo, runs: dict[str, Path], finished: Path) -> None:
    refused = {
        ("translate", finished, "--prompt", "a"): "is no translator",
        ("generate", runs["encoder"]): "is a translator",
        ("generate", runs["prefix"]): "is a translator",
        ("translate", runs["encoder"], "--prompt", "a", "--best", "9"): "--beams 9",
        ("translate", runs["encoder"], "--prompt", "a", "--average", "9"): "whole checkpoints, and 9 were",
        ("translate", runs["encoder"], "--text", "none.txt"): "none.txt cannot be read",
        ("train", "recipe.yaml", "--text", "pairs.tsv", *COMMON, "batches=pairs", "--dry-run"): "has none",
        ("train", "recipe.yaml", "--text", "text.txt", *COMMON, *FORMS["encoder"]): "alone gives no pairs",
        ("plan", *COMMON, *FORMS["separate"], "model.shared_embedding=true"): "model.shared_embedding=false",
        ("plan", *COMMON, *FORMS["separate"], "split=contiguous"): "take split=sources",
        ("train", "recipe.yaml", "--text", "text.txt", "tokenizer=separate"): "it goes with corpus=pairs",
        ("plan", *COMMON, *FORMS["encoder"], "batches.merge_dropout=0.1"): "take tokenizer=bpe",
        ("plan", *COMMON, *FORMS["encoder"], "model.counts=kneser-ney"): "take kind=gpt with",
        ("translate", runs["encoder"], "--score", "pairs.tsv", "--beams", "9"): "nothing to do with --score",
        ("translate", runs["encoder"], "--judge", "pairs.tsv", "--best", "2"): "nothing to do with --judge",
        ("chat", runs["encoder"]): "is a translator",
    }
    for words, sentence in refused.items():
        done = octavo(*words)
        assert done.code == 2 and sentence in done.err, (words, done.err)


@pytest.mark.slow
def test_sides_with_tokenizers_of_their_own_are_judged_and_planned(
    octavo: Octavo, runs: dict[str, Path]
) -> None:
    rows = (octavo.folder / "pairs.tsv").read_text(encoding="utf-8").splitlines()[::90]
    (octavo.folder / "sides.tsv").write_text("\n".join(rows), encoding="utf-8")
    pytest.importorskip("sacrebleu")
    done = octavo("translate", runs["separate"], "--judge", "sides.tsv", "--json")
    found = json.loads(done.out)["systems"]
    assert list(found)[2:] == ["word for word (IBM model 1)"], done.err
    done = octavo("plan", "recipe.yaml", "--text", "pairs.tsv", *COMMON, *FORMS["separate"], "--json")
    run = Run.open(runs["separate"])
    assert json.loads(done.out)["parameters"] == sum(p.numel() for p in run.model.parameters()), done.err
    done = octavo("export", runs["separate"], "--to", "hf", "--out", "exported")
    assert done.code == 2 and "is no GPT" in done.err
    best = json.loads((runs["separate"] / "evaluation.json").read_text(encoding="utf-8"))["translations"]
    best = best["scores"]["ways"][0]
    done = octavo("eval", runs["separate"], "--test")
    assert done.code == 0 and "BLEU " in done.out and best["bleu"]["signature"] in done.out, done.err
    look = json.loads((runs["separate"] / "manifest.json").read_text(encoding="utf-8"))["test_looks"][-1]
    (way,) = look["scores"]["ways"]
    assert (way["beams"], way["length_penalty"]) == (best["beams"], best["length_penalty"])
    page = (runs["separate"] / "report" / "index.html").read_text(encoding="utf-8")
    assert "test BLEU" in page and f"{way['bleu']['score']:.1f}" in page


def test_it_is_judged_beside_baselines_and_another_run(octavo: Octavo, runs: dict[str, Path]) -> None:
    pytest.importorskip("sacrebleu")
    rows = (octavo.folder / "pairs.tsv").read_text(encoding="utf-8").splitlines()[::90]
    (octavo.folder / "judged.tsv").write_text("\n".join(rows), encoding="utf-8")
    words = ("translate", runs["encoder"], "--judge", "judged.tsv", "--against")
    done = octavo(*words, runs["prefix"], "--beams", "1", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert list(found["systems"])[2:] == ["copy of the source", "word for word (IBM model 1)"]
    scores = [one["chrf"]["score"] for one in found["systems"].values()]
    assert scores[3] > scores[2]  # each word has one of the target
    one, other = (one["bleu"]["score"] for one in list(found["systems"].values())[:2])
    assert found["difference"]["difference"] == pytest.approx(one - other)
    done = octavo(*words, runs["encoder"])
    assert done.code == 2 and "cannot be compared with itself" in done.err, done.err


@pytest.mark.parametrize("name", EVERY)
def test_what_cannot_be_read_is_skipped_and_the_rest_done(
    octavo: Octavo, runs: dict[str, Path], name: str
) -> None:
    """A line that is too long, and one with an unknown word: output stays in step with input, and all are counted."""
    lines = ["a b", "a " * 30, "", "a ☃", "c d"]
    (octavo.folder / "long.txt").write_text("\n".join(lines), encoding="utf-8")
    done = octavo("translate", runs[name], "--text", "long.txt", "--beams", "1")
    out = done.out.split("\n")
    assert done.code == 1 and [bool(line) for line in out] == [True, False, False, False, True, False], (
        done.err
    )
    assert "long.txt, line 2: a source of 30 tokens, and the model sees " in done.err
    assert "long.txt, line 4: The tokenizer's vocabulary lacks" in done.err and "2 of 5 lines" in done.err
    streamed = octavo("translate", runs[name], "--beams", "1", "--json", stdin="\n".join(lines).encode())
    rows = [json.loads(line) for line in streamed.out.splitlines()]
    assert streamed.code == 1 and [row["source"].split() for row in rows] == [line.split() for line in lines]
    assert [row["translations"] is None for row in rows] == [False, True, False, True, False]
    pairs = [("a b", "aa bb"), ("a " * 30, "aa"), ("b", "bb " * 30), ("c d", "cc dd")]
    (octavo.folder / "long.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in pairs), "utf-8")
    done = octavo("translate", runs[name], "--score", "long.tsv")
    assert done.code == 1 and [bool(line) for line in done.out.split("\n")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert "long.tsv, line 2: " in done.err and "2 of 4 pairs were skipped" in done.err
    done = octavo("translate", runs[name], "--score", "long.tsv", "--json")
    totals = [json.loads(line)["log_probability"] for line in done.out.splitlines()]
    assert done.code == 1 and [total is None for total in totals] == [False, True, True, False]


def test_pairs_that_are_too_long_are_judged_without(octavo: Octavo, runs: dict[str, Path]) -> None:
    pytest.importorskip("sacrebleu")
    rows = (octavo.folder / "pairs.tsv").read_text(encoding="utf-8").splitlines()[::90]
    rows.insert(3, "a " * 30 + "\taa")
    (octavo.folder / "judge.tsv").write_text("\n".join(rows), encoding="utf-8")
    done = octavo("translate", runs["encoder"], "--judge", "judge.tsv", "--beams", "1", "--json")
    found = json.loads(done.out)
    assert done.code == 1 and found["pairs"] == len(rows) - 1, done.err
    assert (found["skipped"]["count"], found["skipped"]["of"]) == (1, len(rows))
    assert "judge.tsv, line 4" in found["skipped"]["first"][0]["place"] and "judge.tsv, line 4" in done.err
    assert found["known"]["pairs"] == len(rows) - 1 > found["known"]["sources"] > 0  # some were held out
    (octavo.folder / "judge.tsv").write_text(rows[3], encoding="utf-8")
    done = octavo("translate", runs["encoder"], "--judge", "judge.tsv")
    assert done.code == 2 and "None of 1 pairs can be judged. judge.tsv, line 1" in done.err


def test_pairs_of_the_test_split_that_are_too_long_are_counted(octavo: Octavo) -> None:
    rows = [f"{one} {other}\t{one * 2} {other * 2}\n" for one in "abcdef" for other in "abcdef"]
    rows += [f"{'a ' * 20}{one}\t{'aa ' * 20}{one}\n" for one in "abcdefghijkl"]
    (octavo.folder / "some-long.tsv").write_text("".join(rows), encoding="utf-8")
    given = ("recipe.yaml", "--text", "some-long.tsv", *COMMON, *FORMS["encoder"], "training.steps=2")
    done = octavo("train", *given, "validation=0.3", "test=0.3", "--out", "some-long")
    assert done.code == 0, done.err
    done = octavo("eval", "some-long", "--test", "--json")
    skipped = json.loads(done.out)["skipped"]
    assert done.code == 1 and 0 < skipped["count"] < skipped["of"], done.err
    assert f"{skipped['count']:,} of {skipped['of']:,} pairs" in done.err
    assert "longer than the context of 12 tokens" in done.err and "a a a a" in done.err


@pytest.mark.parametrize("end", ["no text", "a request to end"])
def test_it_ends_though_nobody_closes_its_input(octavo: Octavo, runs: dict[str, Path], end: str) -> None:
    """A program that waits for each answer keeps the pipe open."""
    command = [sys.executable, "-m", "octavo", "translate", str(runs["encoder"]), "--beams", "1"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=octavo.folder, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin and running.stdout and running.stderr
        word = (octavo.folder / "pairs.tsv").read_text(encoding="utf-8").split()[0]
        running.stdin.write(f"{word}\n".encode())
        running.stdin.flush()
        assert running.stdout.readline().endswith(b"\n")
        if end == "a request to end":
            running.terminate()
        else:
            running.stdin.write(b"\xff\n")
            running.stdin.flush()
        assert running.wait(timeout=60) == (130 if end == "a request to end" else 2)
        said = running.stderr.read().decode()
        assert ("interrupted" if end == "a request to end" else "line 2") in said and "Traceback" not in said


def test_a_server_translates_as_the_command_does(
    octavo: Octavo, runs: dict[str, Path], finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uvicorn")
    import httpx2

    from octavo.serving.schemas import TranslateAnswer
    from unit.serving.conftest import fuzzer, running

    lines = ["a b c", "f", "a zebra", "", "a " * 50]
    (octavo.folder / "served.txt").write_text("a b c\nf\n", encoding="utf-8")
    done = octavo("translate", runs["encoder"], "--text", "served.txt", "--best", "2", "--json")
    expected = [json.loads(line) for line in done.out.splitlines()]
    with (
        running(runs["encoder"], finished) as (address, _),
        httpx2.Client(base_url=address, trust_env=False) as client,
    ):
        how = {"model": "pairs-encoder", "best": 2}
        answer = client.post("/v1/translate", json={**how, "source": lines}, timeout=60)
        found = TranslateAnswer.model_validate_json(answer.content).choices
        for one, row in zip(found, expected, strict=False):
            assert [each.text for each in one.translations] == [each["text"] for each in row["translations"]]
        assert [bool(one.skipped) for one in found] == [False, False, True, True, True]
        _, faults = fuzzer(monkeypatch).fuzz(address, {"/v1/translate": [{**how, "source": "f"}]}, 60, seed=1)
        assert not faults, faults[:3]
        alone = client.post("/v1/translate", json={**how, "source": "f"}, timeout=60).json()["choices"][0]
        assert alone["translations"] == answer.json()["choices"][1]["translations"]
        for path, model, fields in (
            ("/v1/translate", "finished", {"source": "a"}),
            ("/v1/completions", "pairs-encoder", {"prompt": "a"}),
            ("/v1/chat/completions", "pairs-encoder", {"messages": [{"role": "user", "content": "a"}]}),
            ("/v1/forecast", "pairs-encoder", {"table": "a"}),
            ("/v1/translate", "pairs-encoder", {"source": "a", "beams": 2, "best": 3}),
        ):
            assert client.post(path, json={"model": model, **fields}).status_code == 400
