"""Checkpoints under damage: never used when not whole."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from octavo.errors import CheckpointError
from octavo.training.checkpoint import Checkpoint, read_tensors
from octavo.training.checkpoint_folder import newest_whole, seal
from octavo.util.files import file_hash
from unit.training.saving import contents, learner, save


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
def test_a_file_that_only_another_user_may_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    five, ten = save(tmp_path / "checkpoints", 5), save(tmp_path / "checkpoints", 10)
    theirs, opened = ten.folder / name, Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == theirs:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=f"{name} cannot be read.*Permission denied"):
        ten.verify()
    found, complaints = newest_whole(tmp_path / "checkpoints")
    assert found == five and len(complaints) == 1


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


def test_a_file_outside_is_told_from_the_one_that_was_saved(saved: Checkpoint, tmp_path: Path) -> None:
    config = Path(shutil.copy(saved.folder / "config.yaml", tmp_path))
    assert saved.as_saved(config, version="0.1.0")
    assert not saved.as_saved(config, version="0.0.9")
    assert not saved.as_saved(tmp_path / "state.json", version="0.1.0")
    config.write_text(config.read_text() + "\n")
    assert not saved.as_saved(config, version="0.1.0")
    copy = Checkpoint(shutil.copytree(saved.folder, tmp_path / "step-000005"))
    manifest = json.loads((copy.folder / "MANIFEST.json").read_text())
    manifest["files"]["config.yaml"]["sha256"] = file_hash(config)
    (copy.folder / "MANIFEST.json").write_text(json.dumps(manifest))
    assert not copy.as_saved(config, version="0.1.0")


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


def test_tensors_of_one_prefix_are_read_alone(saved: Checkpoint) -> None:
    path = saved.folder / "state.safetensors"
    whole = read_tensors(path)
    prefix = next(iter(whole))[:-1]
    found = read_tensors(path, prefix)
    assert 0 < len(found) < len(whole)
    assert all(torch.equal(tensor, whole[prefix + name]) for name, tensor in found.items())
