"""Which folders are runs and studies, what they are called, and where new ones go."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.browser import work
from octavo.browser.work import Work
from octavo.errors import InputError
from unit.browser.conftest import write_run


def names(folder: Path) -> list[str]:
    return list(Work.open(folder).look().runs)


def test_runs_lie_in_runs_and_in_studies(tmp_path: Path) -> None:
    for name in ("runs/b", "runs/a", "studies/heads/runs/base-line/seed-1", "mine/deep/c"):
        write_run(tmp_path / name)
    (tmp_path / "studies" / "heads" / "study.yaml").write_text("name: heads\n")
    found = Work.open(tmp_path).look()
    assert list(found.runs) == ["runs/a", "runs/b", "studies/heads/runs/base-line/seed-1", "mine/deep/c"]
    assert list(found.studies) == ["studies/heads"] and not found.cut
    assert Work.open(tmp_path).runs == tmp_path / "runs"


def test_what_was_dropped_is_no_run(tmp_path: Path) -> None:
    for name in ("texts/book", "exports/x", ".octavo/jobs/1", "_hidden", "runs/one/teachers/1"):
        write_run(tmp_path / name)
    write_run(tmp_path / "runs" / "one" / "inside")
    write_run(tmp_path / "real")
    (tmp_path / "runs" / "one" / "config.yaml").write_text("")
    assert names(tmp_path) == ["runs/one", "real"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere" / "one")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "runs").symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path / "work") == []


def test_a_folder_of_runs_gets_new_ones(tmp_path: Path) -> None:
    write_run(tmp_path / "one")
    (tmp_path / "one" / "manifest.json").write_text("{}")
    (tmp_path / "one" / "checkpoints").mkdir()
    assert Work.open(tmp_path).runs == tmp_path
    (tmp_path / "runs").mkdir()
    assert Work.open(tmp_path / "runs").runs == tmp_path / "runs"


def test_new_runs_have_clean_names_of_their_own(tmp_path: Path) -> None:
    found = Work.open(tmp_path)
    write_run(tmp_path / "runs" / "book")
    for given, wanted in {
        "book": "book-2",
        "../../etc": "etc",
        "my book: I/II": "my-book-I-II",
        "": "model",
        "...": "run",
        "Märchen": "Märchen",
        "NUL": "NUL-",
        "a" * 300: "a" * 60,
    }.items():
        made = found.free_run(given)
        assert made.parent == tmp_path / "runs" and made.name == wanted


def test_names_that_are_alike_once_cleaned_stay_apart(tmp_path: Path) -> None:
    for name in ("a b", "a@b", "a-b"):
        write_run(tmp_path / "runs" / name)
    found = Work.open(tmp_path).look().runs
    assert sorted(found) == ["runs/a-b", "runs/a-b-2", "runs/a-b-3"] and len(set(found.values())) == 3


def test_a_huge_folder_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(10):
        (tmp_path / "other" / str(n)).mkdir(parents=True)
    write_run(tmp_path / "runs" / "one")
    monkeypatch.setattr(work, "MOST_FOLDERS", 5)
    found = Work.open(tmp_path).look()
    assert found.cut and list(found.runs) == ["runs/one"]


def test_what_is_no_folder_of_work_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = write_run(tmp_path / "run")
    (run / "manifest.json").write_text("{}")
    (run / "checkpoints").mkdir()
    for path, said in (
        (tmp_path / "none", "does not exist"),
        (tmp_path / "file", "not a folder"),
        (run, "is a run"),
    ):
        with pytest.raises(InputError, match=said):
            Work.open(path)
