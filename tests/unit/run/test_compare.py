"""What a comparison says, and what it does not call comparable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from octavo.errors import InputError, RunFolderError
from octavo.run.compare import compare, render
from unit.run.test_list import make_run


def two(folder: Path) -> list[Path]:
    runs = [make_run(folder / "one"), make_run(folder / "two", bits=2.0)]
    config = (runs[1] / "config.yaml").read_text().replace("width: 16", "width: 32").replace("small", "other")
    (runs[1] / "config.yaml").write_text(config + "seed: 5\n")
    for number, run in enumerate(runs):
        (run / "samples").mkdir()
        (run / "samples" / "step-000010.txt").write_text("earlier")
        (run / "samples" / "step-000020-2.txt").write_text("second")
        (run / "samples" / "step-000020-1.txt").write_text(f"sample <{number}> \x1b")
    return runs


def test_losses_settings_and_samples(tmp_path: Path) -> None:
    found = compare(two(tmp_path))
    assert found.names == ["one", "two"] and found.best == 1
    assert dict(found.figures)["bits per byte"] == ["2.500", "2.000"]
    assert dict(found.differences) == {"seed": ["1337", "5"], "model.width": ["16", "32"]}
    assert found.samples == ["sample <0> \x1b", "sample <1> \x1b"]
    assert any("noise" in note for note in found.notes)
    json.dumps(found.describe())


def test_other_texts_and_tokenizers_do_not_compare(tmp_path: Path) -> None:
    runs = two(tmp_path)
    manifest = json.loads((runs[1] / "manifest.json").read_text())
    manifest["data"]["tokenizer_fingerprint"] = "another"
    (runs[1] / "manifest.json").write_text(json.dumps(manifest))
    found = compare(runs)
    assert found.best == 1 and any("only bits per byte" in note for note in found.notes)
    manifest["data"]["files"]["validation.txt"]["sha256"] = "bb"
    (runs[1] / "manifest.json").write_text(json.dumps(manifest))
    found = compare(runs)
    assert found.best is None and any("different texts" in note for note in found.notes)


def test_a_damaged_run_is_said(tmp_path: Path) -> None:
    runs = [*two(tmp_path), make_run(tmp_path / "three")]
    (runs[2] / "config.yaml").write_bytes(b"\xff")
    found = compare(runs)
    assert found.best == 1 and dict(found.figures)["state"] == ["finished", "finished", "damaged"]
    assert any("three is damaged" in note for note in found.notes)
    assert set(dict(found.differences)) == {"seed", "model.width"}
    assert "three" in render(found)


def test_a_damaged_run_is_not_the_best(tmp_path: Path) -> None:
    """One of another text once was: it has no say in whether texts are the same, and had one in who is best."""
    runs = [*two(tmp_path), make_run(tmp_path / "three", bits=0.5)]
    manifest = json.loads((runs[2] / "manifest.json").read_text())
    manifest["data"]["files"]["validation.txt"]["sha256"] = "bb"
    (runs[2] / "manifest.json").write_text(json.dumps(manifest))
    (runs[2] / "checkpoints" / "step-000020" / "state.json").write_bytes(b"{}")
    found = compare(runs)
    assert found.runs[2].damage and found.runs[2].bits_per_byte == 0.5
    assert found.best == 1 and found.describe()["best"] == str(runs[1])
    assert compare([runs[0], runs[2]]).best is None, "one alone is the best of none"


def test_the_page_stands_alone(tmp_path: Path) -> None:
    page = render(compare(two(tmp_path)))
    assert page.count("<svg") == 2 and "http" not in page.replace("http://www.w3.org", "")
    assert "sample &lt;0&gt; \\x1b" in page and "model.width" in page
    assert page == render(compare([tmp_path / "one", tmp_path / "two"]))


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="One run"):
        compare([run])
    for wrong in ("nothing", "empty", "run/config.yaml"):
        with pytest.raises(RunFolderError, match=wrong):
            compare([run, tmp_path / wrong])
