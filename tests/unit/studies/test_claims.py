"""The table of the reports' claims: what of a study or a ladder answers which claim."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from octavo.studies.ladder import LADDER, ladder_text, load_ladder
from unit.studies.synthetic import LEVEL, Truth, make
from unit.studies.test_ladder import tree


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module("claims")


def answers(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, by: str, *studies: object
) -> tuple[str, str]:
    """(here, agrees?) of one claim about the change of a made-up study."""
    claim = claims.Claim("E", "it is so", "a made-up study", "change", by=by)
    monkeypatch.setattr(claims, "CLAIMS", (claim,))
    *_, here, agrees = claims._cells(claims.table(studies).splitlines()[-1])
    return here, agrees


@pytest.mark.parametrize(("shift", "agrees"), [(20, "yes"), (-20, "no"), (0, "not decided")])
def test_a_change_that_should_end_worse(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shift: float, agrees: str
) -> None:
    study = make(tmp_path / "s", {"change": Truth(shift)})
    here, said = answers(claims, monkeypatch, "worse", study)
    assert said == agrees and here.startswith("0.8M parameters, 500 steps: ")


@pytest.mark.parametrize(
    ("counting", "agrees"), [(LEVEL + 0.5, "yes"), (LEVEL - 0.5, "no"), (None, "not decided")]
)
def test_a_text_is_learned_where_the_model_is_ahead_of_counting(
    claims: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    counting: float | None,
    agrees: str,
) -> None:
    study = make(tmp_path / "s", {"change": Truth()})
    for file in (tmp_path / "s" / "runs" / "change").rglob("evaluation.json"):
        found = json.loads(file.read_text("utf-8"))
        if counting is not None:
            found["baselines"]["trigram"] = {"bits_per_byte": counting}
        file.write_text(json.dumps(found), "utf-8")
    here, said = answers(claims, monkeypatch, "learned", study)
    assert said == agrees and (counting is None or f"counting trigrams {counting:.3f}" in here)


@pytest.mark.parametrize(("beginning", "agrees"), [(1.0, "yes"), (2.0, "no")])
def test_measures_rank_alike_or_not(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beginning: float, agrees: str
) -> None:
    """Where the first loss is twice as large, a worse end is a larger improvement."""
    study = make(tmp_path / "s", {"change": Truth(20)})
    runs = [
        dataclasses.replace(run, initial_loss=(run.initial_loss or 0) * beginning)
        if run.change == "change"
        else run
        for run in study.runs
    ]
    here, said = answers(claims, monkeypatch, "ranks", dataclasses.replace(study, runs=tuple(runs)))
    assert here.count("worse") == (2 if agrees == "yes" else 1), here
    assert said == agrees


def test_what_is_not_there_is_not_measured_or_keeps_its_answer(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert answers(claims, monkeypatch, "worse") == ("study `a made-up study`", "not measured")
    failed = Truth(failed=dict.fromkeys((1337, 1338, 1339), "The loss was nan."))
    nobody = make(tmp_path / "s", {"change": Truth(), "baseline": failed})
    for by in ("worse", "learned", "ranks", "hypothesis"):
        assert answers(claims, monkeypatch, by, nobody)[1] == "not measured"
    earlier = "| E | it is so | worse by 0.1 | yes |"
    assert "| worse by 0.1" in claims.table((), earlier=earlier)


def test_a_larger_model_beside_a_smaller_one(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Four times the parameters: after as many steps, and after a quarter of them, which is as much computing."""
    monkeypatch.setattr(claims, "CLAIMS", (claims.Claim("E", "a larger scale", "the-ladder"),))
    folder = tmp_path / "the-ladder"
    folder.mkdir()
    ladder = load_ladder(tree(ladder=tree()["ladder"] | {"steps": [300, 1200]}))
    (folder / LADDER).write_text(ladder_text(ladder), "utf-8")
    assert "not measured" in claims.table((), [folder])
    for rung in ladder.rungs:
        shift, size = (0, 200_000) if rung.size == "small" else (-20, 800_000)
        truths = {name: Truth(shift, parameters=size) for name in ("baseline", "change")}
        make(folder / "rungs" / rung.slug, truths)
    line = claims.table((), [folder]).splitlines()[-1]
    assert "better by 0.1" in line and "after as many steps (1,200 and 1,200)" in line
    assert "after as much computing (1,200 and 300)" in line and "yes, after as many steps" in line
