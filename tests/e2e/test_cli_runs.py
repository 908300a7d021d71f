"""Runs listed, compared and written with, through the command line; random seeds, and what the Tab key knows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.asking import refused, train
from e2e.forked import Octavo


@pytest.fixture(scope="module")
def runs(octavo: Octavo, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole run, another one, and a damaged one."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(finished, folder / "whole", symlinks=True)
    assert train(octavo, folder / "other", "training.steps=6", "seed=2").code == 0
    shutil.copytree(finished, folder / "broken", symlinks=True)
    weights = folder / "broken" / "last" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    return folder


def test_runs_are_listed_with_what_they_came_to(octavo: Octavo, runs: Path) -> None:
    told = octavo("runs", runs)
    assert (told.code, told.err) == (0, "")
    rows = {line.split()[0]: line.split() for line in told.out.splitlines()[1:] if line.strip()}
    assert rows["whole"][1:3] == ["recipe", "40"] and rows["whole"][-1] == "finished"
    assert rows["other"][2] == "6" and rows["broken"][-1] == "damaged"
    assert "model.safetensors has" in told.out
    found = {Path(run["run"]).name: run for run in json.loads(octavo("runs", runs, "--json").out)}
    evaluation = json.loads((runs / "whole" / "evaluation.json").read_text())
    assert found["whole"]["bits_per_byte"] == evaluation["bits_per_byte"]
    assert found["broken"]["state"] == "damaged" and found["broken"]["damage"]
    assert found["whole"]["bytes"] > 10_000


@pytest.mark.parametrize("words", [["runs", "."], ["runs", ".", "--json"], ["info", "whole"]])
def test_whole_runs_are_listed_without_torch(runs: Path, words: list[str]) -> None:
    code = (
        "import sys, octavo.cli\n"
        f"try: octavo.cli.main({words!r})\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=runs, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "") and "whole" in told.stdout


def test_the_time_of_a_run_is_said_as_people_say_it(octavo: Octavo, runs: Path) -> None:
    told = octavo("info", runs / "whole").out
    assert re.search(r"^training time +\d+\.\d s$", told, re.MULTILINE) and not re.search(r"\.\d{5}", told)
    facts = json.loads(octavo("info", runs / "whole", "--json").out)
    assert facts["training_seconds"] > 0


def test_where_no_runs_are(octavo: Octavo, tmp_path: Path) -> None:
    assert octavo("runs", tmp_path).out == f"There are no runs in {tmp_path}.\n"
    refused(octavo("runs", tmp_path / "nothing"), "does not exist")


def test_runs_are_compared(octavo: Octavo, runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    compare = ("compare", runs / "whole", runs / "other", runs / "broken", "--page", page)
    told = octavo(*compare, patch="drawn")
    assert (told.code, told.err) == (0, "")
    assert re.search(r"^bits per byte +\d\.\d{3} +\d\.\d{3} +\d\.\d{3}$", told.out, re.MULTILINE)
    assert re.search(r"^seed +1337 +2 +1337$", told.out, re.MULTILINE)
    assert "broken is damaged" in told.out and "--- other\n" in told.out
    assert told.out.endswith(f"page: {page}\n")
    html = page.read_text(encoding="utf-8")
    assert "<svg" in html and not re.search(r"(src|href)=.https?:", html)
    page.write_text("mine")
    again = ("compare", runs / "whole", runs / "other", "--page")
    refused(octavo(*again, page), "exists", "--force")
    assert page.read_text() == "mine"
    assert octavo(*again, page, "--force").code == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    read = runs / "whole" / "metrics.jsonl"
    before = read.read_bytes()
    refused(octavo(*again, read, "--force"), "cannot be written at the same time")
    assert read.read_bytes() == before
    refused(octavo("compare", runs / "whole"), "One run compares with nothing")
    refused(octavo("compare", runs / "whole", tmp_path), "is not a run folder")


def test_where_one_of_two_runs_is_better(octavo: Octavo, runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("compare", runs / "whole", runs / "other", "--where")
    told = octavo(*asked, "--page", page)
    assert told.code == 0 and "-grams predicts a token" in told.out and "second less first" in told.out
    tables = told.out.partition("\n--- ")[0]
    rows = [
        line for line in tables.splitlines() if not line.endswith((".", "errors"))
    ]  # without its sentences
    assert max(map(len, rows)) <= 80, "settings such as corpus.paths were lines of 200 columns"
    assert "Where one is better" in page.read_text("utf-8")
    found = json.loads(octavo(*asked, "--json").out)
    where, figures = found["where"], [run["figures"] for run in found["runs"]]
    assert where["whole"]["first"] == pytest.approx(figures[0]["val_loss"], abs=1e-4)
    assert where["whole"]["second"] == pytest.approx(figures[1]["val_loss"], abs=1e-4)
    assert sum(part["tokens"] for part in where["by_ngram"]) == where["whole"]["tokens"]
    refused(octavo("compare", runs / "whole", runs / "other", runs / "other", "--where"), "two runs compare")
    refused(octavo("compare", runs / "whole", runs / "broken", "--where"), "damaged run")


def test_runs_go_on_from_one_prompt(octavo: Octavo, runs: Path) -> None:
    asked = ("compare", runs / "whole", runs / "other", "--prompt", "who ", "--tokens", "9", "--json")
    told = json.loads(octavo(*asked).out)
    alone = octavo("generate", runs / "whole", "--prompt", "who ", "--tokens", "9").out
    assert told["samples"][0] == alone.removesuffix("\n")
    assert told["prompt"] == "who " and told["differences"]["seed"] == ["1337", "2"]


def test_samples_stand_beside_each_other_where_there_is_room(octavo: Octavo, runs: Path) -> None:
    asked = ("compare", runs / "whole", runs / "other", "--prompt", "who ", "--tokens", "9")
    code, wide = octavo.on_a_terminal(*asked, columns=100)
    assert code == 0 and re.search("who .*who ", wide)
    code, narrow = octavo.on_a_terminal(*asked, columns=40)
    assert code == 0 and not re.search("who .*who ", narrow)


# --- writing in turns ----------------------------------------------------------------------------------------------


def test_writing_in_turns_without_a_terminal(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.txt"
    turns = f"who \n\n/again\n/tokens 3\n/temperature 0\n\\n\n/save {saved}\n/undo\n/text\n"
    told = octavo("write", finished, stdin=turns.encode())
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(octavo("generate", finished, "--prompt", "who ").out)
    text = saved.read_text()
    assert text.startswith("who ")
    saved.unlink()
    assert told == octavo("write", finished, stdin=turns.encode()) and text == saved.read_text()


def test_again_takes_the_place_of_the_last_turn(octavo: Octavo, finished: Path) -> None:
    told = octavo("write", finished, stdin=b"who \n/again\n/text\n")
    second = octavo("generate", finished, "--prompt", "who ", "--seed", "1").out
    first = octavo("generate", finished, "--prompt", "who ").out
    assert told.out == first + second + second


@pytest.mark.parametrize(
    ("turn", "word"),
    [
        ("/again", "Nothing is written yet"),
        ("/undo", "Nothing is written yet"),
        ("/nonsense", "no option 'nonsense'"),
        ("/temperature -1", "temperature cannot be -1"),
        ("/temperature [", "temperature"),
        ("/seed five", "whole number"),
        ("/save", "name of a file"),
        ("/save text.txt", "exists"),
        ("/save .", "is a folder"),
        ("/save a\0b", "cannot be written"),
        ("/save ~nobody-of-this-name/a", "cannot be written"),
        ("漢", "漢"),
    ],
)
def test_a_turn_that_cannot_be_done_ends_a_script(
    octavo: Octavo, finished: Path, turn: str, word: str
) -> None:
    refused(octavo("write", finished, stdin=f"{turn}\nwho\n".encode()), word)


def test_writing_in_turns_on_a_terminal(octavo: Octavo, finished: Path) -> None:
    code, seen = octavo.on_a_terminal(
        "write", finished, typed=[b"who \r", b"/again\r", b"/nonsense\r", b"\x04"]
    )
    assert code == 0 and "Traceback" not in seen
    assert seen.count("who ") >= 3 and "no option 'nonsense'" in seen and "/undo" in seen


def test_ctrl_c_ends_it_cleanly(octavo: Octavo, finished: Path) -> None:
    code, seen = octavo.on_a_terminal("write", finished, typed=[b"who \r", b"\x03"])
    assert (code, "Traceback" in seen) == (0, False)


# --- seeds and the Tab key -----------------------------------------------------------------------------------------


def test_the_seed_is_always_printed(octavo: Octavo, finished: Path) -> None:
    told = octavo("generate", finished, "--seed", "random", "--tokens", "20")
    seed = re.fullmatch(r"seed (\d+)\n", told.err)
    assert told.code == 0 and seed
    assert octavo("generate", finished, "--seed", seed[1], "--tokens", "20") == told
    assert octavo("generate", finished, "--seed", "random", "--tokens", "1").err != told.err
    assert octavo("generate", finished, "--tokens", "1").err == "seed 0\n"
    refused(octavo("generate", finished, "--seed", "often"), "--seed")
    refused(octavo("generate", finished, "--seed", "-1"), "--seed")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_verbs_and_options(octavo: Octavo, shell: str) -> None:
    told = octavo("completion", shell)
    assert (told.code, told.err) == (0, "")
    assert "generate" in told.out and "temperature" in told.out
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n"], input=told.out, text=True, check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_really_completes(octavo: Octavo, tmp_path: Path) -> None:
    script = tmp_path / "octavo.bash"
    script.write_text(octavo("completion", "bash").out)
    ask = f"source {script}; COMP_WORDS=(octavo gen); COMP_CWORD=1; _octavo; echo ${{COMPREPLY[@]}}"
    told = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert told.stdout.split() == ["generate"]
