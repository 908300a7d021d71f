"""Which code a result is of, and when the page of results says that it is stale."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import octavo
from octavo.config import load_recipe
from octavo.studies import provenance
from octavo.studies.provenance import (
    DECIDING,
    JUDGED_BEFORE,
    JUDGING,
    SAME,
    STALE,
    code_sha256,
    code_words,
    marked,
    same_figures,
    stale,
)
from octavo.studies.results import study_of, write_study
from octavo.studies.spec import read_study_file, study_names
from octavo.studies.table import summary
from unit.studies.synthetic import Truth, make

NOW = "a" * 64


def test_the_hash_is_of_code_that_is_there_and_changes_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = Path(octavo.__file__).parent
    assert all((package / name).exists() for name in (*DECIDING, *JUDGING))
    assert len(code_sha256()) == 64 and code_sha256() != code_sha256(JUDGING)
    for name in ("training", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "training" / "loop.py").write_text("step = 1\n")
    monkeypatch.setattr(octavo, "__file__", str(tmp_path / "__init__.py"))
    found = []
    for text in ("step = 1\n", "step = 1\r\n", "step = 2\n"):
        (tmp_path / "training" / "loop.py").write_bytes(text.encode())
        code_sha256.cache_clear()
        found.append(code_sha256(("training", "model")))
    code_sha256.cache_clear()
    assert found[0] == found[1] != found[2]


def test_what_gives_the_same_figures_is_said_of_todays_code_alone() -> None:
    """Whoever changes the deciding code takes what stands there out, or shows it anew."""
    assert set(SAME) <= {code_sha256()}


def test_figures_of_code_that_gives_the_same_are_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"*Of code `{NOW[:12]}`, judged by `{code_sha256(JUDGING)[:12]}`; cpu.*"
    monkeypatch.setattr(provenance, "SAME", {"b" * 64: (NOW,)})
    assert same_figures() == {code_sha256()} and STALE in marked(page)
    assert "`mixed`" in code_words((NOW, code_sha256()))
    monkeypatch.setattr(provenance, "SAME", {code_sha256(): (NOW,)})
    assert same_figures() == {code_sha256(), NOW} and marked(page) == page
    assert f"`{code_sha256()[:12]}`" in code_words((NOW, code_sha256())), "begun before, ended today"


@pytest.mark.parametrize("name", study_names())
def test_no_shipped_study_has_what_stands_apart(name: str) -> None:
    file, _ = read_study_file(name, (), [])
    tree = json.dumps(file.model_dump(mode="json"))
    assert "kneser-ney" not in tree and load_recipe(file.baseline).model.counts.kind == "none"


def test_a_page_says_what_is_stale_and_nothing_else(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"change": Truth()})
    judged = code_sha256(JUDGING)
    assert "`unknown`" in code_words(()) and "`mixed`" in code_words(("a", "b"))
    write_study(dataclasses.replace(results.study, sources=(NOW,)), results.folder)
    assert study_of(results.folder).sources == (NOW,)
    page = summary([results.folder])
    assert f"*Of code `{NOW[:12]}`, judged by `{judged[:12]}`; " in page and "torch ?" in page
    assert marked(page, [NOW]) == page and stale(page) == 0
    old, judged_before = marked(page, ["b" * 64]), marked(page, [NOW], "b" * 64)
    assert old.count(STALE) == 1 == stale(old) and judged_before.count(JUDGED_BEFORE) == 1 == stale(
        judged_before
    )
    assert marked(old, ["b" * 64]) == old and marked(old, ["c" * 64, NOW]) == page
    assert marked(judged_before, ["b" * 64]) == old and marked(marked(judged_before, [NOW]), [NOW]) == page
    of_old_form = page.replace(f", judged by `{judged[:12]}`", "")
    assert stale(marked(of_old_form, [NOW])) == 1
