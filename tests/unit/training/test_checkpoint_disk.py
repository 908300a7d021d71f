"""Checkpoints on a failing disk: the one before is never lost when the next one fails."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from octavo.errors import OctavoError, StorageError
from octavo.training import checkpoint as module
from octavo.training.checkpoint import model_tensors, optimizer_tensors, save_checkpoint
from octavo.training.checkpoint_folder import CheckpointFolder, follow, list_checkpoints, point, prune, sweep
from octavo.util.files import replace_text
from unit.training.saving import contents, learner, save

# --- a failing disk ----------------------------------------------------------------------------------------------

_armed: list[Callable[[], None]] = []  # the hook below stays as long as Python runs


def _operation(event: str, arguments: tuple[Any, ...]) -> None:
    if _armed and event in ("open", "os.mkdir", "os.rename", "os.symlink", "os.listdir", "os.scandir"):
        _armed[0]()


sys.addaudithook(_operation)


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], list[int]]]:
    """Arms a failure with an error code at the n-th file operation; gives the count of operations."""
    count = [0, 0, 0]  # done, fails at, error code

    def operation() -> None:
        count[0] += 1
        if count[0] == count[1]:
            raise OSError(count[2], os.strerror(count[2]))

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def with_failure(*arguments: Any, **options: Any) -> Any:
            if _armed:
                operation()
            return call(*arguments, **options)

        return with_failure

    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(module, "save_file", counted(module.save_file))
    monkeypatch.setattr(hashlib, "file_digest", counted(hashlib.file_digest))

    def arm(number: int, code: int) -> list[int]:
        count[:] = [0, number, code]
        _armed[:] = [operation]
        return count

    yield arm
    _armed.clear()


def sentence(code: int) -> str:
    return {
        errno.ENOSPC: "The disk is full",
        errno.EACCES: "cannot be written: Permission denied",
        errno.EIO: "could not be written",
    }[code]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_save_that_fails_anywhere_leaves_the_one_before(
    tmp_path: Path, fail_at: Callable[[int, int], list[int]], code: int
) -> None:
    checkpoints = tmp_path / "checkpoints"
    five = save(checkpoints, 5)
    before = contents(five.folder)
    (tmp_path / "tokenizer").mkdir(exist_ok=True)
    failures = 0
    for number in range(1, 200):
        count = fail_at(number, code)
        try:
            save(checkpoints, 10)
        except StorageError as error:
            failures += 1
            assert sentence(code) in error.what
            assert _armed
        except OSError:  # the helper's own writing, before the save began
            assert number <= 2
        finally:
            _armed.clear()
        assert contents(five.folder) == before
        assert not list(checkpoints.glob(".tmp-*"))
        for checkpoint in list_checkpoints(checkpoints):
            checkpoint.verify()
        if count[0] < number:  # nothing failed any more
            break
        shutil.rmtree(
            checkpoints / "step-000010", ignore_errors=True
        )  # named and whole: only its last sync failed
    else:
        raise AssertionError("every save failed")
    assert failures > 20


@pytest.mark.parametrize(
    ("said", "number"),
    [("I/O error: No space left on device (os error 28)", 28), ("header too large", errno.EIO)],
)
def test_safetensors_own_errors_keep_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, number: int
) -> None:
    def refused(*_: object) -> None:
        raise SafetensorError(f"Error while serializing: {said}")

    monkeypatch.setattr(module, "save_file", refused)
    with pytest.raises(OSError, match=r".") as found:
        module.write_tensors(tmp_path / "model.safetensors", {})
    assert found.value.errno == number


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("limit", [0, 10, 300, 900, 2000])
def test_files_that_cannot_grow(tmp_path: Path, limit: int) -> None:
    """The system's own error, not a planted one: a limit on the size of files, in a child process."""
    checkpoints = tmp_path / "checkpoints"
    before = contents(save(checkpoints, 5).folder)
    model, optimizer = learner()  # computed before the fork: torch's threads are not in the child
    read, write = os.pipe()
    if not os.fork():
        said = "nothing was raised"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            save_checkpoint(
                checkpoints,
                10,
                weights=model_tensors(model),
                memory=optimizer_tensors([optimizer]),
                state={},
                config="seed: 1\n",
                tokenizer=tmp_path / "tokenizer",
                version="0",
            )
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.wait()
    said = os.read(read, 10_000).decode()
    os.close(read)
    assert said.startswith("StorageError: The disk is full"), said
    assert contents(checkpoints / "step-000005") == before
    assert [path.name for path in checkpoints.iterdir()] == ["step-000005"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(StorageError, match="choose another folder"):
        save(tmp_path / "checkpoints", 5)
    assert (tmp_path / "checkpoints").read_text() == "in the way"


def test_replacing_a_text_leaves_the_old_one_when_it_fails(
    tmp_path: Path, fail_at: Callable[[int, int], list[int]]
) -> None:
    path = tmp_path / "config.yaml"
    replace_text(path, "old")
    for number in range(1, 5):
        fail_at(number, errno.ENOSPC)
        with pytest.raises(StorageError):
            replace_text(path, "new")
        _armed.clear()
        assert path.read_text() in ("old", "new")
        if number < 4:
            assert path.read_text() == "old"


# --- pointers and pruning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [True, False])
def test_pointers_with_and_without_symbolic_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:

        def refused(*_: Any, **__: Any) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(Path, "symlink_to", refused)
    five, ten = save(tmp_path / "checkpoints", 5), save(tmp_path / "checkpoints", 10)
    last = tmp_path / "last"
    assert follow(last) is None
    for checkpoint in (five, ten, five):
        point(last, checkpoint)
        found = follow(last)
        assert found is not None
        assert found.folder == checkpoint.folder.resolve()
        found.verify()
    assert last.is_symlink() is links
    shutil.move(tmp_path / "checkpoints", tmp_path / "elsewhere")
    assert follow(last) is None
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_pointer_that_became_a_folder_is_replaced(tmp_path: Path) -> None:
    five, ten = save(tmp_path / "checkpoints", 5), save(tmp_path / "checkpoints", 10)
    shutil.copytree(five.folder, tmp_path / "last")
    found = follow(tmp_path / "last")
    assert found is not None and found.step == 5
    point(tmp_path / "last", ten)
    assert follow(tmp_path / "last") == CheckpointFolder(ten.folder.resolve())


@given(
    steps=st.sets(st.integers(1, 30), min_size=1, max_size=6),
    keep=st.integers(1, 4),
    data=st.data(),
)
def test_pruning_leaves_the_newest_and_what_is_named(
    tmp_path_factory: pytest.TempPathFactory, steps: set[int], keep: int, data: st.DataObject
) -> None:
    checkpoints = tmp_path_factory.mktemp("run") / "checkpoints"
    for step in steps:  # only names matter here
        (checkpoints / f"step-{step:06d}").mkdir(parents=True)
    best = data.draw(st.sampled_from(sorted(steps)))
    prune(checkpoints, keep=keep, always=[CheckpointFolder(checkpoints / f"step-{best:06d}"), None])
    left = {checkpoint.step for checkpoint in list_checkpoints(checkpoints)}
    assert left == set(sorted(steps)[-keep:]) | {best}
    assert not list(checkpoints.glob(".tmp-*"))


@given(
    regular=st.sets(st.integers(1, 30), max_size=6),
    between=st.sets(st.integers(1, 30), min_size=1, max_size=6),
    keep=st.integers(1, 4),
)
def test_checkpoints_in_between_push_no_regular_one_out(
    tmp_path_factory: pytest.TempPathFactory, regular: set[int], between: set[int], keep: int
) -> None:
    checkpoints = tmp_path_factory.mktemp("run") / "checkpoints"
    steps, between = sorted(regular | between), between - regular
    for step in steps:
        (checkpoints / f"step-{step:06d}").mkdir(parents=True)
    prune(checkpoints, keep=keep, always=[], passing=lambda checkpoint: checkpoint.step in between)
    left = {checkpoint.step for checkpoint in list_checkpoints(checkpoints)}
    missing = max(keep - len(regular), 0)
    assert left == {*sorted(regular)[-keep:], *sorted(between, reverse=True)[:missing], steps[-1]}


def test_pruning_on_a_failing_disk_is_a_sentence(
    tmp_path: Path, fail_at: Callable[[int, int], list[int]]
) -> None:
    said = 0
    for number in range(2, 12):  # after the listing
        save(tmp_path / "checkpoints", 5)
        ten = save(tmp_path / "checkpoints", 10)
        fail_at(number, errno.EACCES)
        try:
            prune(tmp_path / "checkpoints", keep=1, always=[])
        except OctavoError:
            said += 1
        finally:
            _armed.clear()
        for checkpoint in list_checkpoints(tmp_path / "checkpoints"):
            checkpoint.verify()
        ten.verify()
    assert said >= 3


def test_sweeping_removes_halves_and_nothing_else(tmp_path: Path) -> None:
    five = save(tmp_path / "checkpoints", 5)
    shutil.copytree(five.folder, tmp_path / "checkpoints" / ".tmp-step-000010")
    (tmp_path / "checkpoints" / "notes.txt").write_text("mine")
    sweep(tmp_path / "checkpoints")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["notes.txt", "step-000005"]
    sweep(tmp_path / "nowhere")


def test_a_link_that_leads_to_itself_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "best").symlink_to("best")
    assert follow(tmp_path / "best") is None
