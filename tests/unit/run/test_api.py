"""The same in a few lines of Python."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import octavo
from e2e import forked
from octavo.data.batch import SideInputs
from octavo.errors import ConfigError, CorpusError, MissingExtra
from octavo.model.base import build_model
from octavo.model.capture import capture
from octavo.run.list import run_info
from octavo.util.files import file_hash
from unit.run.small import RECIPE


@pytest.mark.parametrize(
    ("package", "setting"),
    [("tiktoken", "tokenizer=gpt2"), ("torch.utils.tensorboard", "logging.tensorboard=true")],
)
def test_where_an_extra_is_missing_nothing_is_left(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, setting: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=[setting], quiet=True)
    assert not (tmp_path / "run").exists()


def test_train_generate_evaluate_open_resume_replay(text: Path, tmp_path: Path) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run")
    written = run.generate("a fox", tokens=8, seed=1)
    assert len(written) == 8
    assert written == octavo.Run.open(tmp_path / "run").generate("a fox", tokens=8, seed=1)
    assert run.evaluate()["val_loss"] == run.metrics[-1]["loss"]
    assert run.logits("a fox").shape == (5, run.tokenizer.vocab_size)
    assert np.isfinite(run.logits("a fox")).all()
    assert run.report is not None and run.report.is_file()
    more = octavo.train(RECIPE, text=text, out=tmp_path / "run", resume=True, overrides={"training.steps": 8})
    assert more.step == 8
    again, differing = octavo.replay(tmp_path / "run", tmp_path / "again")
    assert again.step == 8
    assert all("config" not in sentence for sentence in differing)


def test_errors_are_octavos_own_and_leave_the_name_free(text: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=["training.stepz=3"])
    with pytest.raises(CorpusError):
        octavo.train(RECIPE, text=tmp_path / "nowhere", out=tmp_path / "run")
    with pytest.raises(octavo.OctavoError, match="context"):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=["model.context=5000"])
    assert not (tmp_path / "run").exists()
    assert octavo.train(RECIPE, text=text, out=tmp_path / "run").step == 6


def test_without_a_recipe_the_one_of_a_minute_is_taken(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"model.layers": 1, "model.width": 16, "training.steps": 2, "training.precision": "float32"}
    run = octavo.train(text=text, overrides=small)
    assert run.folder is not None and run.folder.path == Path("runs/minute")
    assert run.config == octavo.load_recipe(
        "minute", [*(f"{key}={value}" for key, value in small.items()), f"corpus.paths=[{text}]"]
    )
    assert "recipe: minute" in capsys.readouterr().err
    assert octavo.plan(text=text, overrides=small)["steps"] == 2


def test_a_plan_is_quiet_unless_it_is_asked_not_to_be(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = octavo.plan(RECIPE, text, time_step=False)
    assert not capsys.readouterr().err and plan["steps"] == 6
    octavo.plan(RECIPE, text, time_step=False, overrides={"validation": 0.2}, quiet=False)
    assert "one document" in capsys.readouterr().err
    by_epochs = {"training.steps": None, "training.epochs": 2, "batches": "sliding"}
    asked = octavo.plan(RECIPE, overrides=by_epochs, vocab_size=30, time_step=False)
    assert "add text=PATH" in asked["warnings"][0]


def test_a_short_text_makes_a_short_run(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides={"training.passes": 0.2})
    assert run.step == 3  # 0.2 · 918 of 4 · 16 tokens a step
    assert "3 of 6 steps (a text so short is seen 0.2 times)" in capsys.readouterr().err
    more = octavo.train(
        RECIPE, text=text, out=tmp_path / "run", resume=True, overrides={"training.passes": 0.3}
    )
    assert more.step == 5


def test_a_run_shows_itself(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked.drawn(monkeypatch.setattr)
    out = tmp_path / "a <run>\x1b"
    octavo.train(RECIPE, text=text, out=out, quiet=True)
    run = octavo.Run.open(out)
    assert "step 6" in repr(run) and "1 layers, 2 heads, width 16" in repr(run)
    assert "model" not in run.__dict__, "a look loads no weights"
    page = run._repr_html_()
    assert "a &lt;run&gt;\\x1b" in page and "\x1b" not in page and "<svg" in page
    figure = run.plot()
    figure.savefig(tmp_path / "loss.png")
    assert figure._repr_svg_() == (out / "report" / "loss.svg").read_text(encoding="utf-8")
    alone = octavo.Run.open(run.checkpoint.folder)
    assert "<svg" not in alone._repr_html_()
    with pytest.raises(octavo.OctavoError, match="checkpoint alone"):
        alone.plot()


def test_logits_of_ids_are_those_of_the_text(text: Path, tmp_path: Path) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", quiet=True)
    ids = run.tokenizer.encode("a fox").tolist()
    expected = torch.from_numpy(run.logits("a fox"))[None]  # (1, T, V)
    for given in (ids, [ids], np.array(ids), torch.tensor([ids]), np.array([ids], np.uint16)):
        found = run.logits(given)
        assert found.dtype == torch.float32 and torch.equal(found, expected)
    assert run.logits(torch.tensor([ids, ids])).shape == (2, 5, run.tokenizer.vocab_size)
    for wrong, what in [
        ([run.tokenizer.vocab_size], "is no id"),
        ([-1], "whole numbers from 0 on"),
        ([0.5], "whole numbers"),
        ([], "0 tokens"),
        ([0] * 17, "17 tokens"),
        ([[[0]]], "tokens"),
    ]:
        with pytest.raises(octavo.OctavoError, match=what):
            run.logits(wrong)


def test_attention_of_an_opened_run(text: Path, tmp_path: Path) -> None:
    octavo.train(RECIPE, text=text, out=tmp_path / "run", quiet=True, overrides={"model.layers": 2})
    run = octavo.Run.open(tmp_path / "run")
    before = run.logits("a fox")
    weights = run.attention("a fox")
    assert weights.shape == (2, 1, 2, 5, 5) and weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 1, 2, 5))
    assert torch.equal(weights, weights.tril()) and (weights[..., 1:, 0] < 1).all()
    ids = run.tokenizer.encode("a fox")
    assert run.attention([ids, ids]).shape == (2, 2, 2, 5, 5)
    built = build_model(
        run.config.model, vocab_size=run.tokenizer.vocab_size, seed=0, explicit_attention=True
    )
    run.checkpoint.load_model(built.eval())
    with capture(built, ["blocks.1.attention.attend.weights"]) as seen, torch.no_grad():
        built(torch.from_numpy(ids).long()[None])
    assert torch.equal(weights[1], seen["blocks.1.attention.attend.weights"])
    np.testing.assert_array_equal(run.logits("a fox"), before)  # and the model is as it was
    with pytest.raises(octavo.OctavoError, match="17 tokens"):
        run.attention("a" * 17)


def test_a_changed_model_is_saved_as_a_run(text: Path, tmp_path: Path) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run", quiet=True, overrides={"model.tied": True})
    same = run.save(tmp_path / "same")
    with torch.no_grad():
        run.model.embedding.weight.add_(0.5)
        run.model.blocks[0].attention.qkv.weight.mul_(2)
    saved = run.save(tmp_path / "deep" / "changed")
    assert saved.generate("a fox", tokens=8, seed=1) == run.generate("a fox", tokens=8, seed=1)
    np.testing.assert_array_equal(saved.logits("a fox"), run.logits("a fox"))
    assert saved.step == 6 and saved.evaluate()["val_loss"] == run.evaluate()["val_loss"]
    assert saved.evaluate()["val_loss"] != same.evaluate()["val_loss"]
    for one, changed in ((same, False), (saved, True)):
        assert one.folder is not None
        manifest = json.loads(one.folder.manifest.read_text())
        origin = (tmp_path / "run" / "best").resolve()
        assert manifest["saved_from"] == {
            "checkpoint": str(origin),
            "changed": changed,
            "sha256": file_hash(origin / "model.safetensors"),
        }
        assert run_info(one.path)["saved_from"] == str(origin)
        with pytest.raises(octavo.OctavoError, match=r"cannot be resumed[\s\S]*start_from="):
            octavo.train(out=one.path, resume=True, quiet=True, overrides={"training.steps": 8})
    for taken in (tmp_path / "run", tmp_path / "same", text):
        with pytest.raises(octavo.OctavoError, match=r"exists already|is a file"):
            run.save(taken)
    with torch.no_grad():
        run.model.embedding.weight[0, 0] = torch.nan
    with pytest.raises(octavo.OctavoError, match=r"no finite numbers: embedding\.weight"):
        run.save(tmp_path / "nan")
    run.model.embedding = torch.nn.Embedding(3, 16)
    with pytest.raises(octavo.OctavoError, match="not the one that its recipe builds any more: embedding"):
        run.save(tmp_path / "other")
    assert not (tmp_path / "nan").exists() and not (tmp_path / "other").exists()


def test_texts_in_memory_are_trained_and_evaluated_as_files_are(text: Path, tmp_path: Path) -> None:
    text.write_text(text.read_text().strip())  # which documents are
    run = octavo.train(RECIPE, documents=text.read_text(), out=tmp_path / "memory", quiet=True)
    from_file = octavo.train(RECIPE, text=text, out=tmp_path / "file", quiet=True)
    assert run.metrics[-1]["loss"] == from_file.metrics[-1]["loss"]
    assert octavo.Run.open(tmp_path / "memory").evaluate()["val_loss"] == run.metrics[-1]["loss"]
    other = tmp_path / "other.txt"
    other.write_text(("a dog and a fox. " * 9).strip())
    judged = run.evaluate(documents=other.read_text())
    assert judged["val_loss"] == run.evaluate(other)["val_loss"] != run.metrics[-1]["loss"]
    more = octavo.train(
        RECIPE,
        documents=text.read_text(),
        out=tmp_path / "memory",
        resume=True,
        quiet=True,
        overrides=["training.steps=8"],
    )
    assert more.step == 8
    octavo.train(RECIPE, documents=[f"a fox {n}. " * 20 for n in range(9)], out=tmp_path / "nine", quiet=True)
    splits = json.loads((tmp_path / "nine" / "manifest.json").read_text())["data"]["splits"]
    assert splits["train"]["documents"] == 9  # the last one is cut
    for wrong, what in [
        ({"text": text, "documents": "a"}, "three ways"),
        ({"documents": [3]}, r"documents\[0\] is int"),
        ({"documents": []}, "no text"),
    ]:
        with pytest.raises(octavo.OctavoError, match=what):
            octavo.train(RECIPE, out=tmp_path / "wrong", **wrong)


def test_ids_in_memory_are_trained_as_symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    ids = np.arange(600) % 7
    run = octavo.train(RECIPE, ids=torch.from_numpy(ids), out=tmp_path / "run", quiet=True)
    assert run.tokenizer.vocab_size == 7 and run.config.tokenizer.kind == "symbols"
    assert run.logits(ids[:5]).shape == (1, 5, 7)
    rows = octavo.train(
        RECIPE,
        ids=[list(range(20 + n)) for n in range(12)],
        out=tmp_path / "rows",
        overrides={"tokenizer.size": 50},
        quiet=True,
    )
    assert rows.tokenizer.vocab_size == 51  # and the end of a document
    for wrong in ([], [[]], 3, [-1], [0.5], np.zeros((2, 2, 2), int)):
        with pytest.raises(octavo.OctavoError, match=r"ids|Ids"):
            octavo.train(RECIPE, ids=wrong, out=tmp_path / "wrong")


@pytest.mark.filterwarnings("error")
def test_a_loop_of_ones_own_over_counts_is_told_that_the_network_learns_nothing(
    text: Path, tmp_path: Path
) -> None:
    run = octavo.train(
        RECIPE, text=text, out=tmp_path / "run", quiet=True, overrides={"model.counts": "kneser-ney"}
    )
    copied = copy.deepcopy(run.model)
    model, ids = run.model.train(), torch.tensor([run.tokenizer.encode("a fox and a").tolist()])

    def gradients(model: torch.nn.Module, **how: SideInputs[torch.Tensor]) -> list[str]:
        model.zero_grad(set_to_none=True)
        logits = model(ids[:, :-1], **how)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[0, 1:]).backward()
        return [name for name, each in model.named_parameters() if each.grad is not None]

    with pytest.warns(UserWarning, match=r"trains the gate over them alone.*alone=.*run.network\(\)"):
        assert all(name.startswith("counts.") for name in gradients(model))
    alone = torch.ones_like(ids[:, :-1])
    assert "embedding.weight" in gradients(model, side=SideInputs(alone=alone))
    assert len(gradients(run.network().model.train())) == len(list(run.network().model.parameters()))
    with torch.no_grad():
        model(ids)
        assert torch.equal(pickle.loads(pickle.dumps(copied))(ids), copied(ids))
