"""The plan: its warnings come when they should, and times are said as people say them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import octavo
from octavo.cli.plan import plan_rows
from octavo.config import load_recipe, recipe_names
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.ngram.kernel import Tables
from octavo.ngram.kneser_ney import KneserNey, tables_of
from octavo.ngram.mixture import KneserNeyCounts
from octavo.planning import plan as module
from octavo.planning.plan import MADE_UP, made_up_text, plan, step_tokens, timed, warnings
from octavo.run.settings import resolve
from octavo.training.distill import Distillation
from octavo.util.terminal import Console

SMALL = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"batch": 4, "steps": 30},
}


def facts(**changes: object) -> dict:
    return {
        "counted": "tokens",
        "training_tokens": 1000,
        "passes": 10.0,
        "parameters": 20_001,
        **changes,
    }


def test_the_over_fitting_warning() -> None:
    (said,) = warnings(facts())
    assert "20,001 parameters for 1,000 tokens" in said and "over-fit" in said and "20,000" in said
    assert warnings(facts(parameters=20_000)) == []
    assert warnings(facts(passes=5.0)) == []
    assert warnings(facts(training_tokens=None, passes=None)) == []


@pytest.mark.parametrize("name", recipe_names())
def test_parts_of_shipped_recipes_state_what_is_built(name: str) -> None:
    assert load_recipe(name).model.miscounted(vocab_size=50) is None


def test_a_part_that_states_wrong_counts_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of the user's own that inherits those of another."""
    model = resolve(SMALL, needs_text=False).model
    real, counts = model.parameters(vocab_size=50), type(model.feed_forward)
    matrices = model.block_matrix_parameters()
    monkeypatch.setattr(counts, "parameters", lambda self, *, width: 7)
    monkeypatch.setattr(counts, "matrix_parameters", lambda self, *, width: 5)
    (said,) = plan(SMALL, vocab_size=50, on=["h100"])["warnings"]
    assert f"{model.parameters(vocab_size=50):,} parameters where it has {real:,}" in said
    assert (
        f"{model.block_matrix_parameters():,} numbers in the matrices of its blocks where it has {matrices:,}"
        in said
    )
    assert "`parameters` and `matrix_parameters` of your own part" in said


def test_short_memory_is_said_and_timed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan(SMALL, vocab_size=50, overrides={"training.device": "cpu"})
    assert (whole["micro_batch"], whole["recompute"], whole["warnings"]) == (None, False, [])
    monkeypatch.setattr("octavo.training.memory.free_memory", lambda device: 1)
    found = plan(SMALL, vocab_size=50, overrides={"training.device": "cpu"})
    (said,) = found["warnings"]
    assert (found["micro_batch"], found["recompute"]) == (1, True)
    assert "it may not fit even with 1 of a batch's sequences" in said
    assert found["memory"]["total"] < whole["memory"]["total"]


def test_predictions_stand_in_the_place_of_a_timed_step() -> None:
    found = plan(SMALL, vocab_size=50, on=["h100", "2x8xh100"], price=2.0)
    assert "step_seconds" not in found
    assert [(one["machine"], one["parallel"]) for one in found["predictions"]] == [
        ("h100", "none"),
        ("2x8xh100", "ddp"),
        ("2x8xh100", "fsdp"),
    ]
    with pytest.raises(InputError, match="no machine 'h300'"):
        plan(SMALL, vocab_size=50, on=["h300"])


def test_a_plan_counts_what_a_run_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    found = plan(SMALL, tmp_path / "text.txt")
    assert found["steps"] == 30
    assert found["tokens_seen"] == 30 * 4 * 16
    assert found["passes"] == found["tokens_seen"] / found["training_tokens"]
    assert found["step_seconds"] > 0
    run = octavo.train(SMALL, tmp_path / "text.txt", tmp_path / "run", overrides={"training.steps": 2})
    assert run.parameters == found["parameters"]


def test_without_a_text_the_vocabulary_is_asked_for() -> None:
    with pytest.raises(InputError, match="How large the vocabulary"):
        plan(SMALL)
    assert plan(SMALL, vocab_size=50)["vocabulary"] == 50


def test_a_prefix_teaches_one_token() -> None:
    recipe = load_recipe("tensors-only")
    assert step_tokens(recipe) == 1
    windows = load_recipe("shakespeare-char-cpu", ["training.accumulation=2"])
    assert step_tokens(windows) == 2 * 12 * 64


def test_of_a_long_step_a_part_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_rows = []

    def steps(model: object, optimizer: object, batch: Callable, **how: Any) -> Iterator[int]:
        timed_rows.append((batch(0, 0).rows, how["options"].accumulation))
        yield from how["steps"]

    monkeypatch.setattr(module, "training_steps", steps)
    monkeypatch.setattr(module.time, "perf_counter", itertools.count().__next__)  # each step takes a second
    recipe = load_recipe(
        SMALL, ["training.accumulation=2", "training.precision=float32", "training.device=cpu"]
    )
    short = timed(recipe, vocab_size=10, console=Console(quiet=True))
    monkeypatch.setattr(module, "LONG_STEP", 1)
    long = timed(recipe, vocab_size=10, console=Console(quiet=True))
    assert timed_rows == [(4, 2), (1, 1)]
    assert (short.step_seconds, long.step_seconds) == (1, 8)
    assert long.tokens_per_second == 4 * 2 * 16 / 8


@pytest.mark.parametrize(("rows", "batches"), [(2, "windows"), (30, "sliding"), (30, "documents")])
def test_a_timed_step_mixes_counts_in_as_a_step_of_the_run_does(
    rows: int, batches: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. \n\n" * 400)
    overrides = {
        "model.counts": {"kind": "kneser-ney", "orders": 3, "share": 0.1},
        "training.batch": rows,
        "training.steps": 1,
        "batches": batches,
    }
    mixed: list[tuple[int, int]] = []
    weighed = KneserNeyCounts._weighed

    def noted(counts: KneserNeyCounts, tables: Tables, places: np.ndarray, *given: Tensor) -> Any:
        if counts.training:
            mixed.append((len(places), int((places[:, -1] >= 0).sum())))
        return weighed(counts, tables, places, *given)

    monkeypatch.setattr(KneserNeyCounts, "_weighed", noted)
    timed(resolve(SMALL, None, overrides, needs_text=False), vocab_size=12, console=Console(quiet=True))
    here, seen = mixed[-1]
    octavo.train(SMALL, tmp_path / "text.txt", tmp_path / "run", overrides=overrides)
    assert here == mixed[-1][0] == max(1, rows // 10) * 16
    assert seen > here / 2  # contexts of two tokens are found as in text, not as in noise


@pytest.mark.parametrize(("context", "share"), [(16, 1e-9), (16, 0.49), (60_000, 0.04)])
def test_a_made_up_text_holds_something_out(context: int, share: float) -> None:
    overrides = {"model.counts": {"kind": "kneser-ney", "share": share}, "model.context": context}
    text, held_out = made_up_text(resolve(SMALL, None, overrides, needs_text=False), 12)
    assert held_out is not None and context < held_out.sum() < len(text) <= max(MADE_UP, 4 * (context + 1))


def test_the_tables_of_n_grams_are_said_where_a_text_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    counting = {"model.counts": {"kind": "kneser-ney", "orders": 3}}
    found = plan(SMALL, tmp_path / "text.txt", overrides=counting, time_step=False)
    assert found["table_bytes"] > 0
    ids = {letter: number for number, letter in enumerate(sorted(set("a fox and a dog. ")))}
    tokens = np.array([ids[letter] for letter in "a fox and a dog. " * 60][: found["training_tokens"]])
    tables = tables_of(KneserNey(tokens, vocab_size=len(ids), highest=3)).tables
    arrays = [value for table in tables for value in vars(table).values() if value is not None]
    assert found["table_bytes"] == 2 * sum(array.nbytes for array in arrays)
    assert ("  and tables of n-grams", "0 MiB") in plan_rows(found)
    assert plan(SMALL, vocab_size=50, time_step=False)["table_bytes"] is None
    assert plan(SMALL, tmp_path / "text.txt", time_step=False)["table_bytes"] == 0


def test_a_taught_run_is_planned_with_its_teachers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    octavo.train(SMALL, tmp_path / "text.txt", tmp_path / "run", overrides={"training.steps": 2})
    asked: list[int] = []
    soft_targets = Distillation.soft_targets

    def counted(self: Distillation, batch: Batch[Tensor], *, step: int) -> Tensor:
        asked.append(step)
        return soft_targets(self, batch, step=step)

    monkeypatch.setattr(Distillation, "soft_targets", counted)
    alone = plan(SMALL, tmp_path / "text.txt")
    assert asked == []
    taught = {"training.teachers.runs": [str(tmp_path / "run")], "training.teachers.written": 500}
    found = plan(SMALL, tmp_path / "text.txt", overrides=taught)
    assert asked == [0, 1, 2, 3]
    assert found["passes"] == pytest.approx(alone["passes"] / 2)
    with pytest.raises(InputError, match="sees 16 positions; this model has 32"):
        plan(SMALL, tmp_path / "text.txt", overrides=taught | {"model.context": 32})
    with pytest.raises(InputError, match="the vocabulary has 50"):
        plan(SMALL, vocab_size=50, overrides=taught)
    slow, fast = (
        plan(SMALL, tmp_path / "text.txt", overrides=given, on=["h100"])["predictions"][0]["seconds"]
        for given in (taught, {})
    )
    assert slow["compute"] == pytest.approx(fast["compute"] * 4 / 3) and slow["update"] == fast["update"]


def test_a_runs_own_teachers_take_their_part_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"training.steps": 100, "training.teachers": {"trained": 2, "trained_steps": 40}}
    on = {"vocab_size": 50, "on": ["h100"]}
    taught, alone = (
        plan(SMALL, overrides=given, **on)["predictions"][0] for given in (own, {"training.steps": 100})
    )
    assert taught["seconds"]["compute"] == pytest.approx(alone["seconds"]["compute"] * 4 / 3)
    assert taught["hours"] == pytest.approx((100 + 2 * 40 * 3 / 4) * taught["seconds"]["step"] / 3600)
    here = plan(SMALL, overrides=own, vocab_size=50, time_step=True)
    assert here["training_seconds"] == pytest.approx(160 * here["step_seconds"])


EPOCHS = {**SMALL, "training": {"batch": 4, "epochs": 20}, "batches": "sliding"}


def test_epochs_of_no_text_are_no_thousand_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 epochs over no text were 1,000 steps: 83 s and $0.03."""
    for found in (plan(EPOCHS, vocab_size=50, on=["a100"]), plan(EPOCHS, vocab_size=50)):
        assert (found["steps"], found["tokens_seen"], found["passes"]) == (None, None, 20)
        assert any("20 passes" in said and "text=" in said for said in found["warnings"])
    (machine,) = plan(EPOCHS, vocab_size=50, on=["a100"])["predictions"]
    assert (machine["hours"], machine["price"]) == (None, None) and machine["seconds"]["step"] > 0
    assert plan(EPOCHS, vocab_size=50)["training_time"] is None
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60)
    told = plan(EPOCHS, tmp_path / "text.txt", on=["a100"])
    windows = -(-(told["training_tokens"] - 1) // 16)
    assert told["steps"] in (20 * -(-windows // 4), 20 * -(-(windows - 1) // 4))
    assert told["predictions"][0]["price"] > 0 and told["warnings"] == []


def test_without_a_text_a_long_step_is_predicted_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = []
    build = module.build_model

    def counting(*arguments: object, **options: object) -> object:
        built.append(arguments)
        return build(*arguments, **options)

    monkeypatch.setattr(module, "build_model", counting)
    on_cpu = {"training.device": "cpu"}
    large = plan("tinystories-gpt2", overrides=on_cpu)
    assert large["predicted"] and large["step_seconds"] > 0 and not built
    assert large["parameters"] == 162_419_712
    assert not plan(SMALL, vocab_size=50, overrides=on_cpu)["predicted"] and len(built) == 1
    monkeypatch.setattr(module, "SHORT_TIMING", 0.0)
    assert plan(SMALL, vocab_size=50, overrides=on_cpu)["predicted"] and len(built) == 1
    assert not plan(SMALL, vocab_size=50, overrides=on_cpu, time_step=True)["predicted"] and len(built) == 2
