"""What benchmarks/kept.py keeps of a study is enough to judge it again and to go on elsewhere."""

from __future__ import annotations

import dataclasses
import importlib
import json
import lzma
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from octavo.studies.provenance import code_sha256
from octavo.studies.results import StudyResults, collect
from octavo.studies.run import run_study
from octavo.studies.table import summary
from octavo.studies.verdict import analyse_study
from unit.studies.conftest import DIVERGING, change, study_tree


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    return importlib.import_module("kept")


def test_a_study_is_judged_as_before_from_a_small_file_without_paths(
    kept: ModuleType, whole: tuple[StudyResults, str], text: Path, tmp_path: Path
) -> None:
    results, file = whole[0], tmp_path / "kept" / "whole.jsonl.xz"
    kept.keep(results.folder, file, kept.text_names([text]))
    held = lzma.decompress(file.read_bytes()).decode()
    assert str(text.parent) not in held and "octavo train" not in held and "text:text.txt" in held
    assert kept.sources(file) == {code_sha256()}

    kept.restore(file, tmp_path / "there", {})
    again = collect(tmp_path / "there")
    alike = [dataclasses.replace(run, sample="") for run in results.runs]
    assert list(again.runs) == alike and again.to_come == 0
    assert analyse_study(again).verdicts == analyse_study(results).verdicts
    assert summary([tmp_path / "there"]) == summary([results.folder])


@pytest.mark.slow
def test_a_study_goes_on_with_the_runs_that_had_not_ended(
    kept: ModuleType, whole: tuple[StudyResults, str], text: Path, tmp_path: Path
) -> None:
    """The one that had not is run from its beginning, to the same figures, though the text lies elsewhere."""
    results, file = whole[0], tmp_path / "whole.jsonl.xz"
    stopped, missing = tmp_path / "stopped", results.of("two layers")[0]
    shutil.copytree(results.folder, stopped)
    (stopped / missing.folder / "outcome.json").unlink()
    kept.keep(stopped, file, kept.text_names([text]))

    elsewhere = tmp_path / "elsewhere" / text.name
    elsewhere.parent.mkdir()
    shutil.copy(text, elsewhere)
    kept.restore(file, tmp_path / "there", kept.text_names([elsewhere]))
    assert collect(tmp_path / "there").to_come == 1
    tree = study_tree(changes=[change("two layers", model__layers=2), change("hot", **DIVERGING)])
    again = run_study(tree, elsewhere, tmp_path / "there", jobs=1, quiet=True)
    assert [run.metric for run in again.runs] == [run.metric for run in results.runs]
    made = [path.parent for path in (tmp_path / "there" / "runs").rglob("checkpoints")]
    assert made == [tmp_path / "there" / missing.folder]


def test_what_is_there_is_not_written_over(
    kept: ModuleType, whole: tuple[StudyResults, str], tmp_path: Path
) -> None:
    kept.keep(whole[0].folder, tmp_path / "whole.jsonl.xz", {})
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "study.yaml").write_text("mine")
    kept.restore(tmp_path / "whole.jsonl.xz", tmp_path / "there", {})
    assert (tmp_path / "there" / "study.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["../study.yaml", "/study.yaml", "runs/../../study.yaml", "run/run.py"])
def test_no_other_file_is_written(kept: ModuleType, name: str, tmp_path: Path) -> None:
    with lzma.open(tmp_path / "bad.jsonl.xz", "wt", encoding="utf-8") as out:
        out.write(json.dumps({"file": name, "text": "x"}) + "\n")
    with pytest.raises(ValueError, match="no part of a study"):
        kept.restore(tmp_path / "bad.jsonl.xz", tmp_path / "there", {})
    assert not (tmp_path / "there").exists() and not (tmp_path / "study.yaml").exists()
