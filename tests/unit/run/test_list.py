"""A list of runs says of each what it came to, and a damaged one hides no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from octavo.errors import RunFolderError
from octavo.run.folder import Progress
from octavo.run.list import list_runs, look
from octavo.training.checkpoint_folder import seal
from octavo.util.files import file_hash

CONFIG = "description: small\nmodel: {layers: 1, width: 16, heads: 2, context: 16}\ntraining: {steps: 20}\n"


def make_run(folder: Path, *, bits: float = 2.5, finished: bool = True, name: str = "small") -> Path:
    """What a training leaves, as far as lists look at it."""
    checkpoint = folder / "checkpoints" / "step-000020"
    checkpoint.mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "manifest.json").write_text(
        json.dumps({"recipe": name, "data": {"files": {"validation.txt": {"sha256": "aa"}}}})
    )
    rows = [
        {
            "event": "train",
            "step": 20,
            "loss": 1.0,
            "learning_rate": 0.001,
            "gradient_norm": 1.0,
            "tokens": 640,
            "tokens_per_second": 320.0,
            "seconds": 2.0,
        },
        {"event": "validation", "step": 10, "loss": 2.0, "bits_per_byte": bits + 1},
        {"event": "validation", "step": 20, "loss": 1.5, "bits_per_byte": bits},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    state = Progress(step=20, tokens=640, seconds=2.0, best_loss=1.5, best_step=20, finished=finished).state()
    (checkpoint / "state.json").write_text(json.dumps(state))
    file = checkpoint / "state.json"
    manifest = {
        "format": 1,
        "step": 20,
        "files": {"state.json": {"size": file.stat().st_size, "sha256": file_hash(file)}},
    }
    (checkpoint / "MANIFEST.json").write_text(json.dumps({**manifest, "sha256": seal(manifest)}))
    (folder / "last").symlink_to(checkpoint)
    return folder


def test_what_is_said_of_a_run(tmp_path: Path) -> None:
    seen = look(make_run(tmp_path / "run"))
    assert (seen.state, seen.damage, seen.recipe, seen.steps) == ("finished", None, "small", 20)
    assert seen.bits_per_byte == 2.5 and (seen.tokens, seen.seconds) == (640, 2)
    assert look(make_run(tmp_path / "other", finished=False)).state == "unfinished"


def test_how_far_a_run_is_tells_its_checkpoint_where_no_row_was_due(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = (run / "metrics.jsonl").read_text().replace('"step": 20', '"step": 18').replace("640", "576")
    (run / "metrics.jsonl").write_text(rows.replace('"seconds": 2.0', '"seconds": 1.8'))
    seen = look(run)
    assert (seen.steps, seen.tokens, seen.seconds) == (20, 640, 2.0)


def test_how_far_a_killed_run_is_tell_its_rows(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    rows = (run / "metrics.jsonl").read_text().replace('"step": 20', '"step": 27').replace("640", "864")
    (run / "metrics.jsonl").write_text(rows)
    seen = look(run)
    assert (seen.steps, seen.tokens, seen.state) == (27, 864, "unfinished")


def test_the_figures_are_those_of_the_best_evaluation_not_of_the_last(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", bits=2.5)
    worse = {"event": "validation", "step": 30, "loss": 1.9, "bits_per_byte": 3.0}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(worse) + "\n")
    seen = look(run)
    assert (seen.bits_per_byte, seen.figures["val_loss"], seen.figures["step"]) == (2.5, 1.5, 20)
    assert seen.curve == [(10, 3.5), (20, 2.5), (30, 3.0)] and seen.steps == 30


def test_the_evaluation_of_a_finished_run_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation.json").write_text('{"bits_per_byte": 2.25, "val_loss": 1.4}')
    assert look(run).bits_per_byte == 2.25


def test_runs_are_found_below_and_links_are_not_followed(tmp_path: Path) -> None:
    for name in ("a", "study/runs/b", "study/runs/c"):
        make_run(tmp_path / name)
    (tmp_path / "again").symlink_to(tmp_path / "a")
    make_run(tmp_path / ".hidden" / "d")
    (tmp_path / "notes").mkdir()
    assert {run.path.name for run in list_runs(tmp_path)} == {"a", "b", "c"}
    assert [run.path for run in list_runs(tmp_path / "a")] == [tmp_path / "a"]
    assert list_runs(tmp_path / "notes") == []


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_where_no_folder_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError):
        list_runs(tmp_path / name)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.yaml", None),
        ("config.yaml", b"model: ["),
        ("config.yaml", b"\xff\xfe\x00"),
        ("config.yaml", b"model: {layers: -1}"),
        ("manifest.json", None),
        ("manifest.json", b"[]"),
        ("manifest.json", b"\x00\x00"),
        ("manifest.json", b"\xff"),
        ("evaluation.json", b"{"),
        ("checkpoints/step-000020/state.json", b"{}"),
        ("checkpoints/step-000020/state.json", None),
        ("checkpoints/step-000020/MANIFEST.json", b"null"),
        ("checkpoints/step-000020/MANIFEST.json", None),
    ],
)
def test_a_damaged_run_is_said_and_hides_no_other(tmp_path: Path, file: str, content: bytes | None) -> None:
    make_run(tmp_path / "whole")
    run = make_run(tmp_path / "broken")
    (run / file).unlink(missing_ok=True) if content is None else (run / file).write_bytes(content)
    seen = {each.path.name: each for each in list_runs(tmp_path)}
    assert seen["broken"].state == "damaged" and seen["broken"].damage
    assert seen["whole"].state == "finished"
    json.dumps([each.describe() for each in seen.values()])


@pytest.mark.parametrize(
    "line", [b"5", b"null", b"[1]", b'{"event": "validation"}', b'{"event": "validation", "loss": "x"}', b"{"]
)
def test_rows_that_are_none_are_passed_over(tmp_path: Path, line: bytes) -> None:
    run = make_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert (look(run).state, look(run).bits_per_byte) == ("finished", 2.5)


def test_the_one_written_last_comes_first(tmp_path: Path) -> None:
    import os

    for number, name in enumerate(("a", "b", "c")):
        run = make_run(tmp_path / name)
        for file in run.iterdir():
            os.utime(file, (1e9 + number, 1e9 + number), follow_symlinks=False)
    assert [run.path.name for run in list_runs(tmp_path)] == ["c", "b", "a"]
    assert list_runs(tmp_path)[0].describe()["written"] == "2001-09-09T01:46:42+00:00"


def test_sizes_do_not_count_what_links_lead_to(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    alone = look(run).describe()["bytes"]
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    assert look(run).describe()["bytes"] < alone
