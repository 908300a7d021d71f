"""Checkpoints under damage and under a failing disk: never used when not whole, never lost when the next one fails."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from octavo.errors import CheckpointError, OctavoError, StorageError
from octavo.training import checkpoint as module
from octavo.training.checkpoint import (
    Checkpoint,
    follow,
    list_checkpoints,
    newest_whole,
    point,
    prune,
    replace_text,
    save_checkpoint,
    seal,
    sweep,
)


def learner(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small model and its optimizer after one step."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def save(checkpoints: Path, step: int, *, seed: int = 0) -> Checkpoint:
    tokenizer = checkpoints.parent / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    (tokenizer / "tokenizer.json").write_text('{"kind": "made up"}')
    model, optimizer = learner(seed)
    return save_checkpoint(
        checkpoints,
        step,
        model=model,
        optimizers=[optimizer],
        state={"step": step, "best_step": step},
        config="seed: 1\n",
        tokenizer=tokenizer,
        version="0.1.0",
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save(tmp_path_factory.mktemp("run") / "checkpoints", 5)


FILES = [
    "MANIFEST.json",
    "config.yaml",
    "model.safetensors",
    "state.json",
    "state.safetensors",
    "tokenizer/tokenizer.json",
]


def test_what_was_saved_comes_back(saved: Checkpoint) -> None:
    assert sorted(contents(saved.folder)) == FILES
    saved.verify()
    assert saved.step == 5
    assert saved.state() == {"step": 5, "best_step": 5}
    model, optimizer = learner(seed=0)
    other, others = learner(seed=1)
    saved.load_model(other)
    saved.load_optimizers([others])
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    mine, theirs = optimizer.state_dict()["state"], others.state_dict()["state"]
    assert mine.keys() == theirs.keys()
    for parameter, entries in mine.items():
        for key, value in entries.items():
            assert torch.equal(value, theirs[parameter][key])


def test_a_model_of_another_shape_is_refused(saved: Checkpoint) -> None:
    with pytest.raises(CheckpointError, match="does not fit this model"):
        saved.load_model(nn.Sequential(nn.Linear(4, 9), nn.LayerNorm(9), nn.Linear(9, 3)))
    with pytest.raises(CheckpointError, match="does not fit this model: missing"):
        saved.load_model(nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3), nn.Linear(3, 3)))


def test_a_saved_step_is_not_written_again(saved: Checkpoint) -> None:
    before = contents(saved.folder)
    save(saved.folder.parent, 5, seed=1)
    assert contents(saved.folder) == before


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(saved: Checkpoint, name: str, change: Callable[[bytes], bytes]) -> CheckpointError | None:
    """What `verify` says after a change of one file (which is undone)."""
    path = saved.folder / name
    before = path.read_bytes()
    path.write_bytes(change(before))
    try:
        saved.verify()
    except CheckpointError as error:
        return error
    finally:
        path.write_bytes(before)
    return None


@given(data=st.data())
def test_every_flipped_bit_is_seen(saved: Checkpoint, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FILES))
    size = (saved.folder / name).stat().st_size
    place, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))

    def flip(content: bytes) -> bytes:
        return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]

    assert damaged(saved, name, flip), f"bit {bit} of byte {place} of {name}"


def test_flipped_bits_of_the_manifest_are_seen(saved: Checkpoint) -> None:
    for place in range(0, (saved.folder / "MANIFEST.json").stat().st_size, 7):
        for bit in (0, 5):  # letters to other letters, and to capitals

            def flip(content: bytes, place: int = place, bit: int = bit) -> bytes:
                return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]

            assert damaged(saved, "MANIFEST.json", flip), f"bit {bit} of byte {place}"


@given(data=st.data())
def test_every_truncation_and_every_addition_is_seen(saved: Checkpoint, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(FILES))
    size = (saved.folder / name).stat().st_size
    cut = data.draw(st.integers(0, size - 1))
    assert damaged(saved, name, lambda content: content[:cut])
    added = data.draw(st.binary(min_size=1, max_size=4).filter(bytes.strip))  # blanks change no JSON
    assert damaged(saved, name, lambda content: content + added)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(saved: Checkpoint, tmp_path: Path, name: str) -> None:
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
    (copy.folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name.rpartition('/')[2]} is missing"):
        copy.verify()


def test_swapped_files_are_seen(saved: Checkpoint, tmp_path: Path) -> None:
    for one in FILES:
        for other in FILES:
            if one < other:
                copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
                first, second = (copy.folder / one).read_bytes(), (copy.folder / other).read_bytes()
                (copy.folder / one).write_bytes(second)
                (copy.folder / other).write_bytes(first)
                with pytest.raises(CheckpointError):
                    copy.verify()
                shutil.rmtree(copy.folder)


def test_a_file_of_another_checkpoint_is_seen(tmp_path: Path) -> None:
    five, ten = save(tmp_path / "checkpoints", 5), save(tmp_path / "checkpoints", 10, seed=1)
    shutil.copy(five.folder / "model.safetensors", ten.folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors has been altered"):
        ten.verify()


def test_a_file_too_many_is_seen_but_not_what_systems_leave(saved: Checkpoint, tmp_path: Path) -> None:
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
    (copy.folder / ".DS_Store").write_bytes(b"x")
    copy.verify()
    (copy.folder / "tokenizer" / "merges.txt").write_text("a b")
    with pytest.raises(CheckpointError, match=r"merges\.txt does not belong there"):
        copy.verify()


def test_a_renamed_checkpoint_is_seen(saved: Checkpoint, tmp_path: Path) -> None:
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000050"))
    with pytest.raises(CheckpointError, match="holds step 5"):
        copy.verify()
    free = Checkpoint(shutil.copytree(saved.folder, tmp_path / "my-model"))
    free.verify()
    assert free.step == 5


def test_another_format_version_is_named_with_who_wrote_it(saved: Checkpoint, tmp_path: Path) -> None:
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
    manifest = json.loads((copy.folder / "MANIFEST.json").read_text())
    manifest.pop("sha256")
    manifest.update(format=2, octavo="9.0.0")
    (copy.folder / "MANIFEST.json").write_text(json.dumps({**manifest, "sha256": seal(manifest)}))
    with pytest.raises(CheckpointError, match=r"(?s)format 2; this Octavo reads format 1.*octavo 9\.0\.0"):
        copy.verify()


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "\0" * 40, '{"format": 1}', "{"])
def test_a_manifest_that_is_none(saved: Checkpoint, tmp_path: Path, text: str) -> None:
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
    (copy.folder / "MANIFEST.json").write_text(text)
    with pytest.raises(CheckpointError):
        copy.verify()


def test_the_newest_whole_one_is_found_and_the_others_are_named(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    five, ten, fifteen = (save(checkpoints, step) for step in (5, 10, 15))
    assert newest_whole(checkpoints) == (fifteen, [])
    (fifteen.folder / "state.json").write_text("{}")
    (ten.folder / "model.safetensors").unlink()
    found, complaints = newest_whole(checkpoints)
    assert found == five
    assert len(complaints) == 2
    assert "state.json has 2 bytes instead of" in complaints[0]
    assert "model.safetensors is missing" in complaints[1]
    (five.folder / "MANIFEST.json").write_text("{}")
    assert newest_whole(checkpoints)[0] is None


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
    monkeypatch.setattr(module.hashlib, "file_digest", counted(module.hashlib.file_digest))

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


def test_safetensors_own_errors_keep_their_reason() -> None:
    from safetensors import SafetensorError

    full = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert module._as_os_error(full).errno == errno.ENOSPC
    assert module._as_os_error(SafetensorError("header too large")).errno == errno.EIO


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
                model=model,
                optimizers=[optimizer],
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
    assert follow(tmp_path / "last") == Checkpoint(ten.folder.resolve())


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
    prune(checkpoints, keep=keep, always=[Checkpoint(checkpoints / f"step-{best:06d}"), None])
    left = {checkpoint.step for checkpoint in list_checkpoints(checkpoints)}
    assert left == set(sorted(steps)[-keep:]) | {best}
    assert not list(checkpoints.glob(".tmp-*"))


def test_pruning_on_a_failing_disk_is_a_sentence(
    tmp_path: Path, fail_at: Callable[[int, int], list[int]]
) -> None:
    save(tmp_path / "checkpoints", 5)
    save(tmp_path / "checkpoints", 10)
    fail_at(2, errno.EACCES)  # after the listing
    with pytest.raises(OctavoError):
        prune(tmp_path / "checkpoints", keep=1, always=[])


def test_sweeping_removes_halves_and_nothing_else(tmp_path: Path) -> None:
    five = save(tmp_path / "checkpoints", 5)
    shutil.copytree(five.folder, tmp_path / "checkpoints" / ".tmp-step-000010")
    (tmp_path / "checkpoints" / "notes.txt").write_text("mine")
    sweep(tmp_path / "checkpoints")
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["notes.txt", "step-000005"]
    sweep(tmp_path / "nowhere")
