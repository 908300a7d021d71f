"""Training by minutes: what reading a text may take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import octavo
from octavo.auto import api
from octavo.auto import facts as pilots
from octavo.auto import train as by_minutes
from octavo.auto.facts import TextFacts
from octavo.auto.family import SIZES
from octavo.auto.train import AGAIN, foretell, measured_times, one_device, reading_within
from octavo.config import Recipe
from octavo.errors import CorpusError, InputError, RunFolderError
from octavo.planning.machines import Machine
from octavo.planning.plan import Step
from octavo.run.audit import own_settings
from octavo.run.deadline import ending
from octavo.util.terminal import Console
from unit.auto.laws import FACTS
from unit.auto.test_choose import SPEEDS


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{n} times {n} is {n * n}, and so on.\n" for n in range(1200)), encoding="utf-8")
    return path


@pytest.fixture(autouse=True, scope="module")
def small_and_short(text: Path) -> Iterator[None]:
    predicted, predict = {}, by_minutes.predicted_times

    def once(machine: Machine, *, vocabulary: int) -> Any:
        if (machine.name, vocabulary) not in predicted:
            predicted[machine.name, vocabulary] = predict(machine, vocabulary=vocabulary)
        return predicted[machine.name, vocabulary]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(text.parent / "cache"))
        patch.setattr(pilots, "LEAST", 30)
        patch.setattr(pilots, "MOST", 30)
        patch.setattr(by_minutes, "SIZES", SIZES[:2])  # a step of a large one takes seconds to predict
        patch.setattr(by_minutes, "predicted_times", once)
        yield


@pytest.fixture(scope="module")
def looked(text: Path, small_and_short: None) -> by_minutes.Looked:
    """What there is to know of the text, for any machine and minutes."""
    return by_minutes.look_at([text], [2.0])


def test_a_text_that_is_not_read_in_time_is_an_error_with_both_sizes() -> None:
    console = Console(quiet=True)
    told = r"after 15 s no more than 5 of 2,000 MB were read"
    with pytest.raises(InputError, match=told), reading_within(0.5, console):
        console.read(1_000_000, 2_000_000_000)  # in time
        console.reading_ends = 0.0
        console.read(5_000_000, 2_000_000_000)
    console.read(6_000_000, None)  # and after it all may be read


def test_it_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one line of many\n" * 5000, encoding="utf-8")
    monkeypatch.setattr(by_minutes, "MOST_READING", -1.0)
    with pytest.raises(InputError, match="too long for 1 minute"):
        foretell([text], [1.0])
    assert octavo.train is api.train


def test_for_another_machine_steps_are_predicted(
    text: Path, looked: by_minutes.Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_minutes, "timed", lambda *_, **__: pytest.fail("a step was timed here"))
    monkeypatch.setattr(by_minutes.QUIET, "started", -1e6)  # an old process; the minutes begin with the call
    (laptop,) = looked.foretold(one_device("laptop"))
    (larger,) = foretell([text], [2.0], on="rtx4090")
    assert laptop.longer is not None and laptop.longer.minutes == 30, "the first that is much longer"
    assert laptop.longer.bits <= laptop.promise.bits and laptop.as_plain()["longer"]["minutes"] == 30
    assert "on rtx4090, so" in larger.reasons["model"]
    for learning in (False, True):  # with what is held out, and without
        counts = [cast(Any, one.counted).train(learning) for one in (laptop, larger)]
        first, second = (getattr(each, "alone", each.tables) for each in counts)
        assert first is second is not None, "the same text's n-grams are not counted twice"
    assert (
        larger.best.step_seconds < laptop.best.step_seconds or larger.best.parameters > laptop.best.parameters
    )
    with pytest.raises(InputError, match="8xh100 has 8"):
        foretell([text], [2.0], on="8xh100")
    (again,) = looked.foretold(one_device("laptop"))
    assert again.best == laptop.best and again.promise == laptop.promise, (
        "planning one takes no time of the next"
    )
    tiny = replace(one_device("laptop"), name="abacus", memory=1e6)
    with pytest.raises(InputError, match="The memory of abacus holds none"):
        looked.foretold(tiny)


def test_a_promise_heeds_how_far_earlier_ones_of_this_user_were_off(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = by_minutes.Looked([2.0], FACTS, cast(Any, None), [], 0.0, 0.0, Console(quiet=True))

    def after(earlier: list[float]) -> float:
        monkeypatch.setattr(by_minutes, "earlier_promises", lambda: earlier)
        (found,) = looked.foretold(one_device("laptop"))
        return found.promise.within

    assert after([3, -3] * 20) > 2 * after([])


def test_a_promise_above_what_the_model_begins_with_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(facts: TextFacts, earlier: list[float]) -> list[str]:
        monkeypatch.setattr(by_minutes, "earlier_promises", lambda: earlier)
        looked = by_minutes.Looked([2.0], facts, cast(Any, None), [], 0.0, 0.0, Console(quiet=True))
        return by_minutes.said(looked.foretold(one_device("laptop"))[0])

    assert len(lines(FACTS, [])) == 2
    harder = lines(replace(FACTS, drift=FACTS.start), [])[1]
    assert harder.startswith(f"why not below {FACTS.start:.2f}: on the end of the text")
    assert f"about {FACTS.start:.2f} more" in harder
    worse = lines(FACTS, [40.0] * 40)[1]
    assert "earlier promises here were too good, which adds" in worse


def test_teachers_are_for_processors_and_for_models_that_start_from_nothing(
    looked: by_minutes.Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    chosen = by_minutes.choices

    def choices(*given: Any, taught: bool) -> Any:
        asked.append(taught)
        return chosen(*given, taught=taught)

    monkeypatch.setattr(by_minutes, "choices", choices)
    for on, own in (("laptop", ()), ("rtx4090", ()), ("laptop", ("training.teachers.trained=0", "seed=2"))):
        replace(looked, own=own_settings(own)).foretold(one_device(on))
    assert asked[::2] == asked[1::2] == [True, False, False], "for its own time, and for a longer one"


def test_of_several_times_those_that_are_too_short_are_said_and_left_out(
    looked: by_minutes.Looked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(by_minutes, "step_times", lambda *_, **__: dict.fromkeys(by_minutes.SIZES, 10.0))

    def within(*minutes: float) -> list[by_minutes.Chosen]:
        return replace(looked, minutes=minutes, console=Console()).foretold(None)

    assert [one.promise.minutes for one in within(0.5, 60.0)] == [60.0]
    assert "0.5 minutes is too short for this text" in capsys.readouterr().err
    with pytest.raises(InputError, match="too short") as refused:
        within(0.5, 1.0)
    (least,) = re.findall(r"--minutes ([\d.]+)", refused.value.as_command_line)
    assert within(float(least)), "what is advised can be had"


def test_a_model_that_is_brought_along_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="a model of its own"):
        foretell(["nowhere.txt"], [1.0], overrides=["training.start_from=runs/base"])


@pytest.mark.parametrize("override", ["training.steps=5", "training={epochs: 2}", "training.minutes=3"])
def test_who_says_how_long_to_train_beside_minutes_is_refused(override: str) -> None:
    with pytest.raises(InputError, match=r"says how long there is to train, and training\.\w+ says so too"):
        foretell("nowhere.txt", [1], overrides=[override])
    with pytest.raises(CorpusError):  # which it was about to read
        foretell("nowhere.txt", [1], overrides=["training.steps=null"])


@pytest.mark.parametrize("minutes", ["5", True, [5], np.array([5.0])])
def test_minutes_that_are_no_number_are_refused_in_the_words_of_python(minutes: Any) -> None:
    for how in ({"text": "nowhere.txt"}, {"out": "nowhere", "resume": True}):
        with pytest.raises(InputError, match=r"minutes= takes a number, not .*\n.*for example minutes=5"):
            octavo.train(minutes=minutes, quiet=True, **how)
    with pytest.raises(CorpusError):  # the number is one
        octavo.train(text="nowhere.txt", minutes=np.float32(5), quiet=True)


def test_minutes_and_a_recipe_are_refused() -> None:
    with pytest.raises(InputError, match=r"minutes= chooses the recipe.*\n.*training.minutes=5"):
        octavo.train("quick", text="nowhere.txt", minutes=5)
    with pytest.raises(InputError, match=r"minutes= needs a text.*\n.*text=PATH"):
        octavo.train(minutes=5)


def test_a_folder_that_is_taken_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(RunFolderError):
            octavo.train(text="nowhere.txt", out=tmp_path, minutes=1, overwrite=overwrite, quiet=True)


@pytest.mark.parametrize(("length", "why"), [(60, "54 tokens are left to learn from"), (0, "empty")])
def test_a_text_that_no_model_can_read_gets_no_promise(
    length: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "short.txt").write_text("thirty bytes of text, no more\n"[:30] * (length // 30))
    with pytest.raises(InputError, match=why):
        foretell(tmp_path / "short.txt", [1])


def test_the_training_has_what_all_else_leaves_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 s before the call, 20 s of reading, 3 s of a pilot, 2 s of timing steps; then preparation and the end."""
    now, asked = 100.0, []

    def takes(seconds: float, found: Any) -> Any:
        nonlocal now
        now += seconds
        return found

    def choices(facts: TextFacts, speeds: Any, seconds: float, *given: Any, taught: bool) -> Any:
        asked.append(seconds)
        return chosen(facts, speeds, seconds, *given, taught=taught)

    chosen, pilot = by_minutes.choices, SimpleNamespace(counts=None)
    learned = replace(FACTS, pilot_seconds=3.0, pilot_steps=1200)
    monkeypatch.setattr(by_minutes.time, "monotonic", lambda: now)
    monkeypatch.setattr(by_minutes, "survey", lambda *_, **__: takes(20.0, (FACTS, pilot)))
    monkeypatch.setattr(by_minutes, "with_pilot", lambda *_: takes(3.0, learned))
    monkeypatch.setattr(by_minutes, "measured_times", lambda **_: takes(2.0, SPEEDS))
    monkeypatch.setattr(by_minutes, "choices", choices)
    console = Console(quiet=True)
    console.started = 97.0
    foretell(None, [2.0, 10.0], console=console)
    prepared = AGAIN * 20.0
    end = prepared + ending(prepared)
    assert asked == [pytest.approx(60 * minutes - 3 - 20 - 3 - 2 - end) for minutes in (2, 10)]


@pytest.mark.parametrize(
    ("share", "together", "kept"),
    [(0.99, 0.3, 2), (0.4, 0.3, 1), (0.4, 0.15, 2)],
    ids=["alone", "others use the cores", "others use them a little"],
)
def test_steps_are_timed_in_one_thread_where_others_use_the_cores(
    monkeypatch: pytest.MonkeyPatch, share: float, together: float, kept: int
) -> None:
    asked = []

    def timed(recipe: Recipe, **_: Any) -> Step:
        threads = recipe.training.threads or 2
        asked.append(recipe.training.threads)
        seconds = together if threads == 2 else 0.1
        return Step(
            step_seconds=seconds,
            tokens_per_second=1 / seconds,
            device="cpu",
            precision="float32",
            threads=threads,
            threads_share=share if threads == 2 else 1.0,
            micro_batch=None,
            recompute=False,
        )

    monkeypatch.setattr(by_minutes, "timed", timed)
    monkeypatch.setattr(by_minutes, "fast_bfloat16", lambda device: False)
    found = measured_times(vocabulary=100, seconds=60.0)
    assert set(found.values()) == {0.1 if kept == 1 else together}
    assert asked[:2] == ([None, 1] if share < 0.85 else [None, 2])
    assert set(asked[2:]) == ({1} if kept == 1 else {1, 2} if share < 0.85 else {2})
