"""What a power cut may leave of a run, state by state: whatever it is, the run goes on and loses nothing saved.

`kill -9` loses nothing that was written, so it shows nothing of this. Here the operations of a run are recorded, and a
model of the disk (see `unit.training.crash`) lists the states that a crash may leave after each.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from octavo.run import trainer
from octavo.training import checkpoint_folder
from octavo.util import files
from unit.training.crash import Disk, Event, Recorder, Tree
from unit.training.crashed import Recording, best_of, fsyncs, problem, record, resumed, states

pytestmark = pytest.mark.usefixtures("plain_reports")
FSYNCS = [
    *fsyncs(Path(files.__file__), "publish_folder"),
    *fsyncs(Path(checkpoint_folder.__file__)),
    *fsyncs(Path(trainer.__file__)),
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return record(tmp_path_factory.mktemp("crash"))


@pytest.fixture(scope="module")
def left(recording: Recording) -> tuple[list[tuple[Event, int, Tree]], set[Any]]:
    """All states, and what `states` has seen then."""
    seen: set[Any] = set()
    return list(states(recording, seen)), seen


@pytest.fixture
def place() -> Iterator[Path]:
    """Where states are laid out: in memory where the system has such a folder, for there are many."""
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder) / "state"


def test_whatever_a_crash_leaves_is_whole(recording: Recording, left: Any, place: Path) -> None:
    """Each state: all named checkpoints whole, the last one that was saved found, its rows there, the links right."""
    found, _ = left
    assert len(found) > 500
    assert [best_of(recording, step) for step in recording.saved] == [2, 4, 6, 8]  # so links and pruning move
    for number, (event, reached, tree) in enumerate(found):
        wrong = problem(recording, reached, tree, place)
        assert wrong is None, f"state {number}, after {str(event)[:200]}: {wrong}"


@pytest.mark.parametrize("site", FSYNCS)
def test_every_fsync_is_needed(recording: Recording, left: Any, place: Path, site: str) -> None:
    """With the fsyncs of one line of the code taken away there are new states, and one of them loses something."""
    _, seen = left
    assert any(
        problem(recording, reached, tree, place)
        for _, reached, tree in states(recording, set(seen), without=site)
    )


def test_runs_that_go_on_from_such_states_end_alike(recording: Recording, left: Any, place: Path) -> None:
    """Weights, optimizer and rows to the bit, from the first state, the last, and one between."""
    found = [tree for _, _, tree in left[0]]
    for tree in [found[0], *random.Random(0).sample(found, 1), found[-1]]:
        assert resumed(recording, tree, place) is None


# --- the model of the disk itself --------------------------------------------------------------------------------


def crash_states(root: Path, recorder: Recorder) -> list[Tree]:
    disk = Disk(recorder)
    for event in recorder.events:
        disk.take(event)
    return list(disk.states(random.Random(0), drawn=20))


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def test_a_file_that_takes_a_name_unsynced_may_be_empty(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    (tmp_path / "text").write_text("old!")
    with recorder.recording():
        sync(tmp_path / "text")
        sync(tmp_path)
        (tmp_path / "aside").write_text("new!")
        (tmp_path / "aside").replace(tmp_path / "text")
    left = [tree.get("text") for tree in crash_states(tmp_path, recorder)]
    assert set(left) == {b"old!", b"new!", b"", b"ne", b"\0\0\0\0"}


def test_a_file_that_is_synced_and_named_stays(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.recording():
        (tmp_path / "aside").write_text("new!")
        sync(tmp_path / "aside")
        (tmp_path / "aside").replace(tmp_path / "text")
        before = crash_states(tmp_path, recorder)
        sync(tmp_path)
        with (tmp_path / "text").open("a") as file:
            file.write("more")
    assert {tree.get("text") for tree in before} == {None, b"new!"}
    assert {"aside" in tree for tree in before} == {True, False}
    left = [tree.get("text") for tree in crash_states(tmp_path, recorder)]
    assert set(left) == {b"new!", b"new!mo", b"new!\0\0\0\0", b"new!more"}


def test_names_in_two_folders_arrive_in_any_order(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "file").write_text("x")
    with recorder.recording():
        for path in (tmp_path / "step" / "file", tmp_path / "step", tmp_path):
            sync(path)
        (tmp_path / "step").rename(tmp_path / "gone")
        (tmp_path / "gone" / "file").unlink()
    left = {frozenset(tree) for tree in crash_states(tmp_path, recorder)}
    assert left == {
        frozenset(names) for names in (["step", "step/file"], ["step"], ["gone", "gone/file"], ["gone"])
    }
