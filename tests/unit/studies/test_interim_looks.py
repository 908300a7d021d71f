"""What is said of a study that was not made in one go."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from octavo.studies import provenance
from octavo.studies.interim_looks import looks_at, note_look, notes
from octavo.studies.provenance import code_sha256
from octavo.studies.results import write_study
from octavo.studies.verdict import analyse_study
from unit.studies.synthetic import Truth, make


def test_each_number_of_seeds_counts_once(tmp_path: Path) -> None:
    assert looks_at(tmp_path) == () and notes((), ()) == []
    for seeds in (3, 3, 5, 3):
        note_look(tmp_path, seeds)
    assert looks_at(tmp_path) == (3, 5)
    note_look(tmp_path, 2)
    assert looks_at(tmp_path) == (3, 5, 2), "in the order in which it was judged"
    (tmp_path / "looks.json").write_text('{"damaged"')
    assert looks_at(tmp_path) == ()


def test_a_study_that_grew_says_so_among_its_notes(tmp_path: Path) -> None:
    results = make(tmp_path, {"a": Truth()})
    note_look(tmp_path, 3)
    assert not any("times as it grew" in note for note in analyse_study(results).notes)
    note_look(tmp_path, 5)
    (said,) = (note for note in analyse_study(results).notes if "as it grew" in note)
    assert said.startswith("It was judged 2 times as it grew (with 3, 5 seeds).")


def test_runs_of_several_versions_of_the_code_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = make(tmp_path, {"a": Truth()})
    today, earlier = code_sha256(), ("b" * 64,)
    monkeypatch.setattr(provenance, "SAME", {today: earlier})
    for ran, said in (((today, earlier[0]), False), (("a" * 64, today), True), (("a" * 64,), False)):
        study = dataclasses.replace(results.study, sources=ran)
        write_study(study, tmp_path)
        found = analyse_study(dataclasses.replace(results, study=study)).notes
        assert any("several versions" in note for note in found) == said
