"""Models are found by name, loaded when they are asked for, put away when memory is short, and never half."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import InputError, OctavoError
from octavo.run.folder import RunFolder
from octavo.serving import models as models_room
from octavo.serving.errors import Refusal
from octavo.serving.models import TRIES, Models, Place, Served, key_of, named, places_of
from octavo.training.checkpoint_folder import MANIFEST
from unit.serving.conftest import saved, tokenizer_of


def done(act: Callable[[Models], Awaitable[Any]], *paths: Path, memory: int = 2**30) -> Any:
    """What something does with models, in an event loop of its own."""

    async def main() -> Any:
        models = Models(places_of(paths), memory=memory, slots=2)
        try:
            return await act(models)
        finally:
            models.close()

    return asyncio.run(main())


@pytest.fixture
def mine(runs: Path, tmp_path: Path) -> Path:
    """A run of one's own, to be changed."""
    return Path(shutil.copytree(runs / "char", tmp_path / "mine", symlinks=True))


def checkpoint(run: Path) -> Path:
    return next((run / "checkpoints").iterdir())


def test_names_are_folders_and_steps(runs: Path) -> None:
    assert [place.name for place in places_of([runs])] == ["bytes", "char", "chat", "counts"]
    assert [place.name for place in places_of([runs / "chat", runs / "char"])] == ["chat", "char"]
    assert [place.name for place in places_of([checkpoint(runs / "char")])] == ["step-000003"]
    assert named("my run@2 ä?") == "my-run-2-ä"


def test_what_is_no_run_is_said(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("{}")
    for path in ("nothing", "empty", "begun"):
        with pytest.raises(InputError):
            places_of([tmp_path / path])
    with pytest.raises(InputError, match="char"):
        places_of([runs / "char", runs / "char"])


def test_a_model_is_loaded_once_and_by_any_of_its_names(runs: Path) -> None:
    async def act(models: Models) -> None:
        async def one(name: str | None) -> Served:
            async with models.using(name) as served:
                assert served.users >= 1
                return served

        found = await asyncio.gather(
            *(one(name) for name in ("char", "char@best", "char@last", "char@3", None))
        )
        assert len({id(served) for served in found}) == 1 and found[0].users == 0
        assert len(models.loaded) == 1
        for wrong in (
            "char@4",
            "char@x",
            "char@",
            "char@@3",
            "none",
            "char@-3",
            "char@٣",
            "",
            "char@" + "9" * 30,
        ):
            with pytest.raises(Refusal) as refusal:
                await one(wrong)
            assert refusal.value.status == 404

    done(act, runs / "char")


def test_without_a_name_there_must_be_one_model(runs: Path) -> None:
    async def act(models: Models) -> None:
        async with models.using(None):
            pass

    with pytest.raises(Refusal) as refusal:
        done(act, runs)
    assert refusal.value.status == 400


def test_the_least_recently_used_is_put_away_and_none_in_use(runs: Path) -> None:
    size = done(size_of("char"), runs / "char")

    async def act(models: Models) -> None:
        async with models.using("char"):
            pass
        async with models.using("bytes"):
            pass
        async with models.using("char"):
            pass
        async with models.using("counts"):
            assert {served.name for served in models.loaded.values()} == {"char", "counts"}
            async with models.using("char"):
                with pytest.raises(Refusal) as refusal:
                    async with models.using("bytes"):
                        pass
                assert refusal.value.status == 503 and "Retry-After" in refusal.value.headers
                assert {served.name for served in models.loaded.values()} == {"char", "counts"}
        assert models.taken <= models.memory

    done(act, runs, memory=int(2.6 * size))
    with pytest.raises(Refusal) as refusal:
        done(size_of("char"), runs / "char", memory=1000)
    assert refusal.value.status == 503


def test_a_damaged_checkpoint_is_not_served(mine: Path) -> None:
    weights = checkpoint(mine) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")

    async def act(models: Models) -> None:
        async with models.using("mine"):
            pass

    with pytest.raises(Refusal) as refusal:
        done(act, mine)
    assert refusal.value.status == 503 and str(mine) not in refusal.value.message


def test_another_checkpoint_takes_the_place_of_a_damaged_one_and_says_so(mine: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other", tokenizer_of("char"), step=5, seed=9)
    shutil.copytree(checkpoint(other), mine / "checkpoints" / "step-000005")
    (checkpoint(mine).parent / "step-000003" / "state.json").write_text("{")

    async def act(models: Models) -> str | None:
        async with models.using("mine") as served:
            assert served.run.step == 5
            return served.notice

    assert "5" in done(act, mine)


def test_what_has_not_changed_is_not_read_again(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(place: Place, which: str) -> Any:
        read.append(which)
        return key_of(place, which)

    async def act(models: Models) -> None:
        async def ask(*names: str) -> None:
            for name in names:
                async with models.using(name):
                    pass

        await ask(*["mine", "mine@last", "mine@3"] * 3)
        assert read == ["best", "last", "3"]
        os.utime(checkpoint(mine) / MANIFEST)
        await ask(*["mine"] * 3)
        assert read == ["best", "last", "3", "best"]

    monkeypatch.setattr(models_room, "key_of", noted)
    done(act, mine)


def test_files_that_are_removed_or_replaced_are_noticed(mine: Path, tmp_path: Path) -> None:
    async def act(models: Models) -> None:
        async with models.using("mine") as served:
            assert served.notice is None
            first = served
        hidden = mine.rename(tmp_path / "hidden")
        async with models.using("mine") as served:
            assert served is first and served.notice
        hidden.rename(mine)
        shutil.rmtree(mine)
        saved(mine, tokenizer_of("char"), seed=9)
        async with models.using("mine") as served:
            assert served is not first and served.fingerprint != first.fingerprint
        shutil.rmtree(mine)
        models.loaded.clear()
        with pytest.raises(Refusal) as refusal:
            async with models.using("mine"):
                pass
        assert refusal.value.status == 503

    done(act, mine)


@pytest.mark.parametrize("deed", ["truncated", "replaced", "removed"])
def test_weights_that_change_in_their_place_are_noticed(mine: Path, deed: str) -> None:
    """What was loaded goes on, for nothing is read from the file any more."""

    async def act(models: Models) -> None:
        async with models.using("mine") as served:
            text = served.run.generate("the", seed=1)
        weights = checkpoint(mine) / "model.safetensors"
        if deed == "truncated":
            weights.write_bytes(b"")
        elif deed == "replaced":
            other = weights.with_name("other")
            other.write_bytes(weights.read_bytes()[::-1])
            other.replace(weights)
        else:
            weights.unlink()
        async with models.using("mine") as again:
            assert again is served and "changed or removed" in (again.notice or "")
            assert again.run.generate("the", seed=1) == text

    done(act, mine)


def test_a_best_that_moves_on_is_served(mine: Path, tmp_path: Path) -> None:
    async def act(models: Models) -> None:
        async with models.using("mine") as served:
            assert served.run.step == 3
            other = saved(tmp_path / "other", tokenizer_of("char"), step=5, seed=9)
            shutil.copytree(checkpoint(other), mine / "checkpoints" / "step-000005")
            best = RunFolder(mine).best
            best.unlink()
            best.symlink_to(Path("checkpoints", "step-000005"))
            async with models.using("mine") as newer, models.using("mine@3") as pinned:
                assert newer.run.step == 5 and pinned is served

    done(act, mine)


@pytest.mark.parametrize("always", [False, True])
def test_a_checkpoint_that_a_training_took_away_is_looked_for_anew(
    mine: Path, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what is best and reading it; where it never ends, that is said."""
    read, steps = Models._read, iter(range(4, 4 + TRIES if always else 5))

    def racing(self: Models, *where: Any) -> Any:
        for step in steps:
            shutil.rmtree(mine)
            saved(mine, tokenizer_of("char"), step=step)
            raise OctavoError("The checkpoint is gone.")
        return read(self, *where)

    monkeypatch.setattr(Models, "_read", racing)

    async def act(models: Models) -> None:
        async with models.using("mine") as served:
            assert served.key == key_of(places_of([mine])[0], "best") and served.notice is None
            assert models.loaded == {served.key: served}

    if not always:
        return done(act, mine)
    with pytest.raises(Refusal) as caught:
        done(act, mine)
    assert caught.value.status == 503
    return None


def test_a_place_that_is_gone_has_no_facts(tmp_path: Path) -> None:
    place = Place("gone", tmp_path / "gone")
    assert place.steps == [] and place.finished
    with pytest.raises(OctavoError):
        places_of([place.path])


def test_loading_goes_on_when_the_one_that_asked_leaves(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, read = threading.Event(), threading.Event(), Models._read

    loads: list[int] = []

    def slow(self: Models, *where: Any) -> Any:
        loads.append(1)
        begun.set()
        go_on.wait(30)
        return read(self, *where)

    monkeypatch.setattr(Models, "_read", slow)

    async def act(models: Models) -> None:
        async def use() -> None:
            async with models.using("char"):
                pass

        tasks = [asyncio.create_task(use()) for _ in range(2)]
        await asyncio.to_thread(begun.wait, 30)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not models.loaded
        go_on.set()
        while not models.loaded:  # though nobody waits for it
            await asyncio.sleep(0.01)
        await use()
        assert loads == [1] and len(models.loaded) == 1 and not next(iter(models.loaded.values())).users

    done(act, runs / "char")


def test_a_model_that_is_waited_for_is_not_put_away(runs: Path) -> None:
    """Many at once with room for few: each has a model that counts as loaded, or is told to come again."""

    async def act(models: Models) -> None:
        async def one(name: str) -> None:
            try:
                async with models.using(name) as served:
                    assert models.loaded[served.key] is served and models.taken <= models.memory
                    await asyncio.sleep(0.001)
                    assert models.loaded[served.key] is served
            except Refusal as refusal:
                assert refusal.status == 503 and "Retry-After" in refusal.headers

        for _ in range(5):
            await asyncio.gather(*(one(name) for name in ["char", "bytes", "counts", "chat"] * 2))
        assert not models._wanted.total() and not models._loads

    done(act, runs, memory=int(2.6 * done(size_of("char"), runs)))


def size_of(name: str) -> Callable[[Models], Awaitable[int]]:
    async def act(models: Models) -> int:
        async with models.using(name) as served:
            return served.memory

    return act


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    torch.set_num_threads(1)
    yield
