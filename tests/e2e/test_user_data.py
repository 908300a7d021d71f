"""Nothing of the user's is overwritten or removed, whatever a command is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo


@pytest.fixture
def project(octavo: Octavo, tmp_path: Path) -> Path:
    """A folder with nothing but hidden files, all of them precious."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (tmp_path / ".env").write_text("SECRET=1")
    return tmp_path


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "wrong", ["--text=typo.txt", "--text=text.txt sampling.prompt=ζ", "tokenizer.size=x"]
)
def test_a_typo_removes_nothing_that_was_there(octavo: Octavo, project: Path, wrong: str) -> None:
    """`--out .` in a project once took .git and .env with it."""
    before = tree(project)
    refused(octavo("train", "recipe.yaml", "--out", project, *wrong.split()))
    assert tree(project) == before
    refused(octavo("train", "recipe.yaml", "--out", project / "a" / "b", *wrong.split()))
    assert tree(project) == before and not (project / "a").exists()


def test_a_link_that_leads_nowhere_is_a_sentence(octavo: Octavo, project: Path) -> None:
    (project / "link").symlink_to(project / "gone")
    for verb in ("train recipe.yaml --text text.txt", "study run heads-cpu --text text.txt"):
        refused(octavo(*verb.split(), "--out", project / "link"), "is a link to", "does not exist")
    wrong = octavo("corpus", "write", "pidgin-storyteller", "--stories", "2", "--out", project / "link")
    refused(wrong, "is a link to", "does not exist")
    assert os.path.lexists(project / "link") and not (project / "gone").exists()


OUTPUTS = [
    "corpus clean --text {read} --steps plain --out {out}",
    "corpus vocab --text {read} --size 5 --out {out}",
    "corpus vocab --text {read} --size 5 --picture {out}",
    "corpus clean --text text.txt --steps plain --words {read} --out {out}",
]


@pytest.mark.parametrize("command", OUTPUTS)
def test_an_output_is_no_input_and_nothing_that_exists(octavo: Octavo, tmp_path: Path, command: str) -> None:
    """`corpus vocab|clean --out` once wrote over its own source, and over a run's metrics."""
    read, other = tmp_path / "read.svg", tmp_path / "other.svg"
    read.write_text("the cat sat on the mat. the dog sat too.\n" * 20)
    other.write_text("precious")
    before = tree(tmp_path)

    def run(out: Path, *more: str) -> object:
        return octavo(*command.format(read=read, out=out).split(), *more)

    refused(run(read, "--force"), "cannot be written at the same time")
    refused(run(other), "exists", "--force")
    assert tree(tmp_path) == before
    assert run(other, "--force").code == 0
    assert other.read_text() != "precious"
    assert tree(tmp_path).keys() == before.keys()


def test_a_file_of_an_input_folder_is_an_input(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one and two")
    clean = ("corpus", "clean", "--text", tmp_path, "--steps", "plain", "--out")
    refused(octavo(*clean, tmp_path / "one.txt", "--force"), "cannot be written at the same time")
    assert octavo(*clean, tmp_path / "clean.txt").code == 0


def test_a_page_is_not_written_over_another(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my homepage")
    stats = ("corpus", "stats", "--text", "text.txt", "--out", tmp_path)
    refused(octavo(*stats), "index.html exists", "--force")
    assert (tmp_path / "index.html").read_text() == "my homepage"
    assert octavo(*stats, "--force").code == 0
    assert "<html" in (tmp_path / "index.html").read_text()


def test_a_written_corpus_takes_no_folder_of_others(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("mine")
    write = ("corpus", "write", "pidgin-storyteller", "--stories", "2", "--out")
    refused(octavo(*write, tmp_path), "is not empty, and not a corpus")
    assert (tmp_path / "corpus.txt").read_text() == "mine"
    for _ in range(2):
        assert octavo(*write, tmp_path / "new").code == 0
