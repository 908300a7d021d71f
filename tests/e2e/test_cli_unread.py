"""Nobody reads what a command says, as behind `| head`: what it works at is done all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import SENTENCES
from e2e.forked import Octavo, Result
from octavo.run.run import Run

STUDY = """\
baseline: recipe.yaml
seeds: 2
noise: 0
budget: {steps: 6}
changes:
  - name: no residual
    hypothesis: It learns more slowly.
    set: {model.residual: false}
"""


@pytest.mark.parametrize("unread", [(1,), (2,), (1, 2)])
def test_a_training_that_nobody_reads_goes_on_to_its_end(
    octavo: Octavo, tmp_path: Path, unread: tuple[int, ...]
) -> None:
    out = tmp_path / "run"
    words = ("train", "recipe.yaml", "--text", "text.txt", "--out", out, "training.steps=4")
    ended = octavo(*words, "evaluation.every=2", unread=unread)
    assert ended.code == 0
    assert Run.open(out).step == 4 and (out / "report" / "index.html").is_file()
    assert "validation" in (out / "log.txt").read_text()  # the log has it all the same


def test_a_training_behind_head_goes_on_to_its_end(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "recipe.yaml", "--text", "text.txt", "--out", str(out), "training.steps=4"]
    with subprocess.Popen(
        [sys.executable, "-m", "octavo", *words],
        cwd=octavo.folder,
        env={**os.environ, "OCTAVO_CACHE": str(octavo.cache), "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.wait() == 0
    assert Run.open(out).step == 4


def test_an_error_that_nobody_reads_keeps_its_code(octavo: Octavo) -> None:
    assert octavo("info", "nothing-here", unread=(1, 2)).code == 2
    assert octavo("--no-such-option", unread=(1, 2)).code == 2


def test_whatever_writes_files_writes_them_unread(octavo: Octavo, tmp_path: Path) -> None:
    (octavo.folder / "prompts.txt").write_text("the fox\na dog\n")
    (octavo.folder / "long.txt").write_text("".join(SENTENCES) * 60)

    def unread(*words: object) -> None:
        assert octavo(*words, unread=(1, 2), patch="proven_here") == Result(0, "", "")

    run = tmp_path / "run"
    octavo("train", "recipe.yaml", "--text", "text.txt", "--out", run, "test=0.1", "training.steps=4")
    unread("generate", run, "--prompts", "prompts.txt", "--tokens", "4")
    assert [*run.rglob("prompts*")]
    unread("eval", run, "--test")
    assert json.loads((run / "manifest.json").read_text())["test_looks"]
    unread("export", run, "--to", "torch", "--text", "long.txt", "--out", tmp_path / "shipped")
    assert (tmp_path / "shipped").is_dir()
    unread("train", "--replay", run, "--out", tmp_path / "again")
    assert Run.open(tmp_path / "again").step == 4


@pytest.mark.slow
def test_a_study_is_run_unread(octavo: Octavo, tmp_path: Path) -> None:
    (octavo.folder / "unread.yaml").write_text(STUDY)
    words = ("study", "run", "unread.yaml", "--text", "text.txt", "--out", tmp_path / "study", "--jobs", "1")
    assert octavo(*words, unread=(1, 2)) == Result(0, "", "")
    assert (tmp_path / "study" / "report" / "index.html").is_file()


def test_what_only_prints_ends_when_nobody_reads_it(octavo: Octavo, finished: Path) -> None:
    for verb, typed in (
        (("generate", finished, "--tokens", "1000000000"), b""),
        (("write", finished), b"the fox\n" * 1_000_000),
        (("chat", finished), b"the fox\n" * 1_000_000),
    ):
        ended = octavo(*verb, stdin=typed, unread=(1,), patch="limited")
        assert (ended.code, ended.out) == (0, ""), ended
        assert "Traceback" not in ended.err and "error" not in ended.err


def test_a_stream_that_was_closed_from_the_start_is_one_that_nobody_reads(
    octavo: Octavo, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = f"train recipe.yaml --text text.txt --out {out} training.steps=4"
    ended = subprocess.run(
        ["sh", "-c", f"exec '{sys.executable}' -m octavo {words} 0<&- 1>&- 2>&-"],
        cwd=octavo.folder,
        env={**os.environ, "OCTAVO_CACHE": str(octavo.cache), "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        check=False,
    )
    assert ended.returncode == 0
    assert Run.open(out).step == 4
