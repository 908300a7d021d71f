"""Runs that learn from runs: who may teach, what they write, and that such a run goes on as the same run."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

import octavo
from octavo.config import load_recipe
from octavo.data import Dataset, prepare
from octavo.errors import CheckpointError, ConfigError, InputError, StorageError
from octavo.generation import Precision
from octavo.run import teachers
from octavo.run.run import Run
from octavo.run.settings import resolve
from octavo.run.teachers import teachers_of
from octavo.util.terminal import Console

RECIPE = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {
        "batch": 4,
        "steps": 6,
        "checkpoint_every": 2,
        "precision": "float32",
        "schedule": "constant",
    },
    "evaluation": {"every": 3},
    "sampling": {"tokens": 10},
    "logging": {"every": 1},
}
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and two runs on it that can teach."""
    folder = tmp_path_factory.mktemp("teachers")
    (folder / "text.txt").write_text("a fox and a dog. " * 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        for seed in (1, 2):
            octavo.train(
                RECIPE | {"seed": seed}, folder / "text.txt", folder / f"teacher-{seed}", console=QUIET
            )
    return folder


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(place / "cache"))


def taught(
    place: Path,
    out: Path,
    *overrides: str,
    runs: tuple[str, ...] = ("teacher-1", "teacher-2"),
    **more: object,
):
    named = json.dumps([str(place / name) for name in runs])
    settings = [f"training.teachers.runs={named}", *overrides]
    return octavo.train(RECIPE, place / "text.txt", out, overrides=settings, console=QUIET, **more)


def losses(folder: Path) -> list[tuple[int, float]]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(row["step"], row["loss"]) for row in rows]


def test_a_taught_run_goes_on_and_repeats_to_the_bit(place: Path, tmp_path: Path) -> None:
    written = "training.teachers.written=2000"
    taught(place, tmp_path / "whole", written)
    taught(place, tmp_path / "parts", written, "training.steps=3")
    text = (tmp_path / "parts" / "written.safetensors").read_bytes()
    taught(place, tmp_path / "parts", written, resume=True)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert (tmp_path / "parts" / "written.safetensors").read_bytes() == text
    _, differing = octavo.replay(tmp_path / "whole", tmp_path / "again", console=QUIET)
    assert differing == []
    known = json.loads((tmp_path / "whole" / "manifest.json").read_text())["teachers"]
    assert [Path(one["checkpoint"]).parts[-3] for one in known] == ["teacher-1", "teacher-2"]
    assert len({one["sha256"] for one in known}) == 2
    alone = octavo.train(RECIPE, place / "text.txt", tmp_path / "alone", console=QUIET)
    assert losses(tmp_path / "alone") != losses(tmp_path / "whole")
    assert "teachers" not in json.loads((alone.folder.path / "manifest.json").read_text())


def test_only_a_model_of_the_same_tokens_and_context_can_teach(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("Quite another alphabet? Yes! " * 40)
    octavo.train(RECIPE, other, tmp_path / "stranger", console=QUIET)
    with pytest.raises(InputError, match="another tokenizer"):
        taught(place, tmp_path / "run", runs=(str(tmp_path / "stranger"),))
    with pytest.raises(InputError, match="sees 16 positions; this model has 32"):
        taught(place, tmp_path / "run", "model.context=32")
    with pytest.raises(InputError, match="does not exist"):
        taught(place, tmp_path / "run", runs=("nobody",))
    with pytest.raises(ConfigError, match="nobody is there to write"):
        octavo.train(RECIPE, place / "text.txt", tmp_path / "run", overrides=["training.teachers.written=99"])
    with pytest.raises(ConfigError, match="take more than 16"):
        taught(place, tmp_path / "run", "training.teachers.written=16")
    with pytest.raises(ConfigError, match="2 sequences"):
        taught(place, tmp_path / "run", "training.teachers.written=99", "training.batch=1")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_go_on_with_other_teachers(place: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        octavo.train(RECIPE | {"seed": 7}, place / "text.txt", tmp_path / name, console=QUIET)
    runs = (str(tmp_path / "one"),)
    taught(place, tmp_path / "run", "training.steps=3", runs=runs)
    with pytest.raises(ConfigError, match="another run"):
        taught(place, tmp_path / "run", resume=True)
    octavo.train(
        RECIPE | {"seed": 7},
        place / "text.txt",
        tmp_path / "one",
        resume=True,
        overrides=["training.steps=9"],
        console=QUIET,
    )
    with pytest.raises(CheckpointError, match="is not what taught this run"):
        taught(place, tmp_path / "run", runs=runs, resume=True)


def test_a_teacher_that_may_know_the_answers_is_told(place: Path, tmp_path: Path) -> None:
    said: list[str] = []
    console = Console(quiet=True)
    console.say = said.append
    recipe = resolve(
        RECIPE | {"validation": 0.3},
        place / "text.txt",
        {"training.teachers.runs": [str(place / "teacher-1")]},
    )
    teachers.open_teachers(recipe, dataset(place, validation=0.3), console)
    assert any("may have read what this run is evaluated on" in sentence for sentence in said)
    said.clear()
    teachers.open_teachers(recipe, dataset(place, validation=0.1), console)
    assert said == []


def dataset(place: Path, *, validation: float = 0.1, split: str = "contiguous", **recipe: object) -> Dataset:
    resolved = resolve(RECIPE | recipe, place / "text.txt")
    return prepare(
        resolved.corpus.build(report=print),
        resolved.tokenizer,
        split=split,
        validation=validation,
        report=print,
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_is_written_goes_on_from_the_text_and_is_the_same_again(
    place: Path, precision: Precision
) -> None:
    runs, text = [octavo.Run.open(place / f"teacher-{seed}") for seed in (1, 2)], dataset(place)
    models, given = (
        [run.model for run in runs],
        {"context": 12, "seed": 5, "console": QUIET, "precision": precision},
    )
    one, two = (teachers.write(models, text, 40_000, **given) for _ in range(2))
    assert np.array_equal(one.tokens, two.tokens) and np.array_equal(one.starts, two.starts)
    assert 40_000 <= len(one.tokens) < 40_000 + teachers.STREAMS * 13
    assert one.starts.tolist() == list(range(0, len(one.tokens), 13))
    read = (place / "text.txt").read_text()
    for start in one.starts[:5].astype(int):
        assert runs[0].tokenizer.decode(one.tokens[start : start + 12].tolist()) in read
    other = teachers.write(models[::-1], text, 40_000, **given)
    assert not np.array_equal(one.tokens, other.tokens)  # they take turns


def test_they_write_what_they_predict(place: Path) -> None:
    """Another temperature than 1 would teach other probabilities than theirs. This one predicts the same everywhere."""
    model = octavo.Run.open(place / "teacher-1").model
    size = model.lm_head.out_features
    head = torch.nn.Linear(model.lm_head.in_features, size, bias=True)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.linspace(0, 2.5, size))
    model.lm_head = head
    opening = torch.zeros(64, 1, dtype=torch.int64)
    random = np.random.Generator(np.random.Philox(key=[1, 2]))
    new = teachers.goes_on(model, opening, random, before=None, end=None, precision="float32")
    drawn = torch.cat(list(islice(new, 200)), dim=1).flatten()
    expected = head.bias.detach().softmax(dim=0)
    shares = torch.bincount(drawn, minlength=size) / len(drawn)
    errors = (expected * (1 - expected) / len(drawn)).sqrt()
    assert ((shares - expected).abs() / errors).max() < 4


@pytest.mark.parametrize("tokenizer", ["bpe", "word"])
def test_documents_are_written_to_their_end(place: Path, tmp_path: Path, tokenizer: str) -> None:
    stories = tmp_path / "stories.jsonl"
    lines = [
        f"the {beast} met a {other} . they ran ."
        for beast in ("fox", "dog", "cat")
        for other in ("hen", "cow")
    ]
    stories.write_text(
        "".join(json.dumps({"text": f"{line} {n}"}) + "\n" for n, line in enumerate(lines * 30))
    )
    recipe = RECIPE | {"split": "documents", "batches": "documents", "tokenizer": tokenizer}
    if tokenizer == "bpe":
        recipe |= {"tokenizer": {"kind": "bpe", "size": 300}}
    octavo.train(recipe, stories, tmp_path / "teacher", console=QUIET)
    named = {"training.teachers.runs": [str(tmp_path / "teacher")], "training.teachers.written": 1000}
    run = octavo.train(recipe, stories, tmp_path / "run", overrides=named, console=QUIET)
    held = load_file(tmp_path / "run" / "written.safetensors")
    end = run.tokenizer.end
    assert end is not None
    ends = np.flatnonzero(held["tokens"] == end)
    assert np.array_equal(np.append(held["starts"][1:], len(held["tokens"])), ends + 1)
    if run.tokenizer.start != end:
        assert (held["tokens"][held["starts"].astype(int)] == run.tokenizer.start).all()


def test_a_full_disk_leaves_no_half_of_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(teachers, "save_file", full)
        with pytest.raises(StorageError, match="The disk is full"):
            taught(place, tmp_path / "run", "training.teachers.written=2000")
    assert not (tmp_path / "run" / "written.safetensors").exists()
    taught(place, tmp_path / "run", "training.teachers.written=2000", resume=True)
    taught(place, tmp_path / "whole", "training.teachers.written=2000")
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_half_of_a_batch_is_what_they_wrote(place: Path) -> None:
    recipe = resolve(
        RECIPE,
        place / "text.txt",
        {
            "training.teachers.runs": [str(place / "teacher-1")],
            "training.teachers.written": 100,
            "training.batch": 5,
        },
    )
    assert recipe.training.text_rows == 3
    text = dataset(place)
    plain = octavo.run.data.build_batches(recipe, text, QUIET)
    folder = octavo.run.folder.RunFolder(place / "half")
    folder.path.mkdir()
    mixed = teachers.with_written(
        plain,
        [octavo.Run.open(place / "teacher-1")],
        recipe,
        text,
        folder,
        QUIET,
        octavo.training.distributed.parallel.ALONE,
    )
    for step in range(3):
        batch = mixed.batch(step)
        inputs, targets = batch.inputs, batch.targets
        assert inputs.shape == targets.shape == (5, 16)
        assert np.array_equal(inputs[:3], plain.batch(step).inputs)
        assert np.array_equal(targets[:, :-1], inputs[:, 1:])
    texts = load_file(folder.written)["tokens"].reshape(-1, 17)
    assert {tuple(row) for row in np.concatenate((inputs, targets[:, -1:]), axis=1)[3:]} <= {
        tuple(row) for row in texts
    }


def test_what_they_wrote_is_known_by_its_hash(place: Path, tmp_path: Path) -> None:
    """Lost, it is written again; altered, it is refused."""
    written = "training.teachers.written=2000"
    taught(place, tmp_path / "whole", written)
    taught(place, tmp_path / "run", written, "training.steps=3")
    path = tmp_path / "run" / "written.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="is not what the teachers wrote"):
        taught(place, tmp_path / "run", written, resume=True)
    path.write_bytes(whole[:100])
    with pytest.raises(CheckpointError, match="is not what the teachers wrote"):
        taught(place, tmp_path / "run", written, resume=True)
    path.unlink()
    taught(place, tmp_path / "run", written, resume=True)
    assert path.read_bytes() == whole
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_teacher_must_read_what_its_pupil_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    pupil = load_recipe("translate-demo", ["training.teachers.runs=[x]"])
    reader = SimpleNamespace(config=load_recipe("translate-demo", ["model.kind=gpt", "batches=joined-pairs"]))
    monkeypatch.setattr(Run, "open", lambda path: reader)
    with pytest.raises(InputError, match=r"cannot teach this model: .*source"):
        teachers_of(pupil)
