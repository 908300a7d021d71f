"""A run whose model counts: judged, resumed, replayed, written with, started from, and refused where it must be."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from e2e.asking import refused
from e2e.asking import train as asked
from e2e.forked import Octavo, Result
from e2e.test_resume import results
from octavo.generation.cached import CachedDecoder
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.ngram.mixture import NETWORK
from octavo.run.run import Run
from octavo.run.train import train as train_here
from octavo.run.trainer import Hook
from octavo.training.checkpoint_folder import list_checkpoints

COUNTS = "model.counts={kind: kneser-ney, orders: 8, hidden: 8, share: 0.1}"


def train(octavo: Octavo, out: Path, *more: str, text: str | None = None) -> Result:
    beside = {} if text is None else {"text": text}
    return asked(octavo, out, COUNTS, "training.keep=100", *more, **beside)


@pytest.fixture(scope="module")
def counting(octavo: Octavo) -> Path:
    """A run that counts; read it, don't write."""
    out = octavo.folder / "counting"
    done = train(octavo, out)
    assert done.code == 0, done.err
    return out


def test_it_is_no_worse_than_counting(counting: Path) -> None:
    """Early too, when the network knows little; the text is one that counting knows by heart."""
    judged = json.loads((counting / "evaluation.json").read_text())
    rows = [json.loads(line) for line in (counting / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["event"] == "validation"]
    counted = judged["baselines"]["ngram"]["loss"]
    first = counted - math.log(1 - NETWORK)  # by the share that the network has before the first step
    assert losses[0] < first + 0.005, (losses, counted)
    assert all(loss < counted + 0.02 for loss in losses[1:]), (losses, counted)
    assert judged["val_loss"] < counted + 0.005


def test_what_is_learned_badly_leaves_the_model_that_counts(octavo: Octavo, tmp_path: Path) -> None:
    """Step 0 is a checkpoint, so a run is never worse on its validation split than what it began with: here the network
    learns what the validation split, another text, does not follow, and the gate stays as it is."""
    random = np.random.default_rng(1)
    (octavo.folder / "ab.txt").write_text("ab\n" * 1500 + "".join(random.choice([*"ab\n"], size=1000)))
    split = ("split=contiguous", "validation=0.15", "evaluation.every=3", "training.steps=6")
    gate = ("training.optimizer.gate_rate=1e-9", "training.optimizer.learning_rate=0.03")
    done = train(octavo, tmp_path / "run", *split, *gate, text="ab.txt")
    assert done.code == 0, done.err
    run = Run.open(tmp_path / "run")
    rows = [row for row in run.folder.rows() if row["event"] == "validation"]
    assert [(row["step"], row["best"]) for row in rows] == [(0, True), (3, False), (6, False)]
    assert run.step == 0 and rows[0]["loss"] < min(row["loss"] for row in rows[1:])


def test_stopped_when_only_step_0_is_saved_it_goes_on_to_the_same_bits(
    octavo: Octavo, counting: Path, tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    settings = (COUNTS, "training.keep=100")
    places = (octavo.folder / "recipe.yaml", octavo.folder / "text.txt", tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        train_here(*places, overrides=settings, quiet=True, hooks=[Hook(1, stop)])
    assert [each.step for each in list_checkpoints(tmp_path / "run" / "checkpoints")] == [0]
    done = train(octavo, tmp_path / "run", "--resume")
    assert done.code == 0, done.err
    assert results(tmp_path / "run") == results(counting)
    steps = [row["step"] for row in Run.open(tmp_path / "run").folder.rows() if row["event"] == "validation"]
    assert steps.count(0) == 1


def test_its_page_says_who_predicted_what(octavo: Octavo, counting: Path) -> None:
    judged = json.loads((counting / "evaluation.json").read_text())
    counted = judged["counted"]
    assert counted["counting_loss"] < counted["loss"] + 0.01 < counted["network_loss"]
    assert [side["order"] for side in counted["sides"]] == list(range(9))
    assert len(counted["sample"]) == min(400, counted["tokens"])
    assert any(sentence.startswith("Counting ") for sentence in judged["verdict"])
    assert "of the tokens more probability than the network did" in octavo("eval", counting).out
    page = (counting / "report" / "index.html").read_text()
    assert "Counting or learning?" in page and "8-grams" in page


def test_it_goes_on_from_a_checkpoint_to_the_same_bits(
    octavo: Octavo, counting: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(counting, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > 15:
            shutil.rmtree(checkpoint.folder)
    done = train(octavo, out, "--resume")
    assert done.code == 0, done.err
    assert "resuming after step 15" in done.err
    assert results(out) == results(counting)


def test_all_decoders_write_the_same(counting: Path) -> None:
    model = Run.open(counting).model.eval()
    random = np.random.default_rng(0)
    prompts = {slot: random.integers(model.vocab_size, size=3 + slot).tolist() for slot in range(3)}
    kinds = [FullDecoder, CachedDecoder, *([NativeDecoder] if NativeDecoder.fits(model) else [])]
    decoders = [kind(model, slots=3) for kind in kinds]
    alone = kinds[-1](model, slots=1)
    tokens = dict(prompts)
    for step in range(20):  # beyond the context, so the window slides
        found = [decoder.feed(tokens) for decoder in decoders]
        for other in found[1:]:
            torch.testing.assert_close(other, found[0], atol=2e-5, rtol=1e-5)
        assert torch.equal(alone.feed({0: tokens[0]})[0], found[-1][0]), step
        torch.testing.assert_close(found[0].exp().sum(dim=1), torch.ones(3))
        tokens = {slot: [int(token)] for slot, token in enumerate(random.integers(model.vocab_size, size=3))}


SAID = COUNTS.replace("}", ", recent: 60}")


def test_what_the_text_has_said_so_far(octavo: Octavo, counting: Path, tmp_path: Path) -> None:
    """A text that says each sentence twice, with words that nobody knows: judged, stopped, written with, reported."""
    random = np.random.default_rng(0)
    sentences = ["".join(random.choice([*"abcdefgh "], size=20)) for _ in range(150)]
    text = "".join(f"{each}\n{each}\n" for each in sentences)
    (octavo.folder / "twice.txt").write_text(text, encoding="utf-8")
    out, other = tmp_path / "said", tmp_path / "unsaid"
    for folder, setting in ((out, SAID), (other, COUNTS)):
        done = asked(octavo, folder, setting, "training.keep=100", text="twice.txt")
        assert done.code == 0, done.err
    judged, unsaid = (json.loads((each / "evaluation.json").read_text()) for each in (out, other))
    assert judged["val_loss"] < unsaid["val_loss"] - 0.3
    assert [side["order"] for side in judged["counted"]["sides"]] == [*range(9), None]
    assert "the text so far" in (out / "report" / "index.html").read_text()
    assert json.loads(octavo("eval", out, "--json").out)["val_loss"] == judged["val_loss"]
    whole = results(out)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > 15:
            shutil.rmtree(checkpoint.folder)
    done = asked(octavo, out, SAID, "training.keep=100", "--resume", text="twice.txt")
    assert done.code == 0 and results(out) == whole, done.err
    prompt = f"{sentences[0]}\n{sentences[0][:6]}"
    written = octavo("generate", out, "--prompt", prompt, "--tokens", "8", "--temperature", "0")
    assert written.out.startswith(prompt + sentences[0][6:12]), written.out


def test_commands_take_it(octavo: Octavo, counting: Path, tmp_path: Path) -> None:
    written = octavo("generate", counting, "--prompt", "the ", "--tokens", "20")
    assert written.code == 0 and written.out.startswith("the "), written
    judged = octavo("eval", counting, "--json")
    assert judged.code == 0, judged.err
    assert (
        json.loads(judged.out)["val_loss"]
        == json.loads((counting / "evaluation.json").read_text())["val_loss"]
    )
    again = octavo("train", "--replay", counting, "--out", tmp_path / "again")
    assert again.code == 0, again.err
    planned = octavo("plan", "recipe.yaml", "--vocabulary", "30", COUNTS, "--json")
    assert planned.code == 0, planned.err
    refused(
        octavo("export", counting, "--to", "torch", "--out", tmp_path / "out"),
        "model.counts",
        "no other library",
        "--network-only",
    )


def test_its_network_alone_is_exported(octavo: Octavo, counting: Path, tmp_path: Path) -> None:
    network = Run.open(counting).network()
    assert network.config.model.counts.kind == "none" and network.network() is network
    out = tmp_path / "out"
    text = ("--text", "text.txt", "--network-only", "--json")
    done = octavo("export", counting, "--to", "torch", "--out", out, *text, patch="proven_here")
    assert done.code == 0, done.err
    (certificate,) = json.loads(done.out)
    measured = certificate["measured"]
    assert measured["loss"] == pytest.approx(measured["loss_of_the_run"], abs=1e-5)
    assert measured["loss"] > 2, "counting knows this text by heart, the network hardly anything of it"
    card = (out / "README.md").read_text()
    assert "counts of the training text, which stayed behind" in card
    assert "this model |" not in card, "the run's figures are not of it"


def test_another_run_starts_from_it_and_counts_its_own_text(
    octavo: Octavo, counting: Path, tmp_path: Path
) -> None:
    (octavo.folder / "cats.txt").write_text("the cat said it. who saw the cat?\n" * 60)
    done = octavo(
        "train", "recipe.yaml", "--text", "cats.txt", "--out", tmp_path / "run", f"training.start_from={counting}",
        "training.steps=3",
    )  # fmt: skip
    assert done.code == 0, done.err
    found, before = (Run.open(folder).model.counts.tokens for folder in (tmp_path / "run", counting))
    assert len(found) != len(before)


@pytest.mark.parametrize("batches", ["documents", "sliding", "prefixes"])
def test_other_batches(octavo: Octavo, tmp_path: Path, batches: str) -> None:
    done = train(octavo, tmp_path / "run", f"batches={batches}", "training.steps=3")
    assert done.code == 0, done.err


def test_a_text_too_short_to_hold_anything_out(octavo: Octavo, tmp_path: Path) -> None:
    (octavo.folder / "short.txt").write_text("the cat said it.\n" * 3)
    short = asked(octavo, tmp_path / "run", COUNTS, "training.steps=2", "validation=0.4", text="short.txt")
    assert short.code == 0, short.err
    tiny = "model.context=2"
    (octavo.folder / "tiny.txt").write_text("a cat.\nab")
    refused(
        asked(octavo, tmp_path / "two", COUNTS, tiny, "validation=0.4", text="tiny.txt"),
        "counting 8-grams needs",
    )
