"""The command line, and every wrong turn that we could think of: each ends with a sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.asking import refused, train
from e2e.forked import Octavo
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import list_checkpoints, seal

# --- wrong turns -------------------------------------------------------------------------------------------------


def test_wrong_words(octavo: Octavo) -> None:
    refused(octavo("trian"), 'Did you mean "train"')
    refused(octavo("train", "--texd", "a"), "texd")
    refused(octavo("train"), "This recipe needs a text", "--text PATH")
    refused(octavo("train", "training.stepz=3"), "training.stepz", "did you mean")
    refused(octavo("train", "--resume"), "--resume needs the folder of the run")
    refused(octavo("train", "shakespear-char-cpu"), "Did you mean 'shakespeare-char-cpu'?")
    refused(octavo("recipes", "nothing-like-it"), "no recipe 'nothing-like-it'")
    refused(octavo("train", "recipe.yaml", "nonsense"), "'nonsense' is not an override", "key=value")
    twice = ("train", "recipe.yaml", "seed=1", "--text", "text.txt", "seed=2")
    refused(octavo(*twice), "seed is given twice", "give each setting once")
    refused(octavo("train", "--replay", "x", "recipe.yaml"), "--replay repeats a run as it was")


def test_a_verb_without_what_it_is_about(octavo: Octavo) -> None:
    refused(
        octavo("tune", "sft"),
        "octavo tune sft needs a run.",
        "name a run: octavo tune sft runs/book (octavo runs lists them)",
    )
    refused(octavo("verify"), "octavo verify needs FOLDER.", "octavo verify --help")
    refused(octavo("write", "--run"), "--run requires an argument")
    refused(octavo("corpus", "clean", "--text", "text.txt"), "--out requires an argument")


@pytest.fixture
def home(octavo: Octavo, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text and two runs, of which `new` was written last; commands run in it."""
    for name, age in (("old", 100), ("new", 10)):
        shutil.copytree(finished, tmp_path / "runs" / name, symlinks=True)
        for file in (tmp_path / "runs" / name).iterdir():
            os.utime(file, (2e9 - age, 2e9 - age), follow_symlinks=False)
    (tmp_path / "runs" / "begun").mkdir()
    (tmp_path / "runs" / "begun" / "config.yaml").write_text("{}")  # newer, and without a checkpoint
    shutil.copy(octavo.folder / "text.txt", tmp_path / "book.txt")
    shutil.copy(octavo.folder / "recipe.yaml", tmp_path)
    monkeypatch.setattr(octavo, "folder", tmp_path)
    return tmp_path


def test_a_run_is_found_by_its_name_and_without_one_the_newest(octavo: Octavo, home: Path) -> None:
    named = octavo("generate", "old", "--tokens", "5")
    assert (named.code, named.err) == (0, "seed 0\n")
    newest = octavo("generate", "--tokens", "5")
    assert (newest.code, newest.out) == (0, named.out) and "run: runs/new, the newest" in newest.err
    for verb in (("info",), ("eval", "--json"), ("chat",), ("write",)):
        done = octavo(*verb)
        assert done.code == 0 and "run: runs/new, the newest" in done.err, done
    assert octavo("compare", "old", "new").code == 0
    asked = [{"prompt": f"{who} {n * 'o'}", "completion": "no"} for who in "odgsawtfxc" for n in range(1, 8)]
    (home / "asked.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    tuned = octavo("tune", "sft", "old", "--text", "asked.jsonl", "--dry-run")
    assert tuned.code == 0 and "/runs/old\n" in tuned.out
    (home / "old").mkdir()  # a path that is there is that path
    refused(octavo("info", "old"), "old is not a run folder")


def test_what_writes_into_a_run_wants_its_name(octavo: Octavo, home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("*")}
    refused(octavo("eval", "--test"), "--test writes into a run: name it.")
    refused(octavo("eval", "--planted", "plan.json"), "--planted writes into a run")
    refused(octavo("generate", "--prompts", "book.txt"), "--prompts writes into a run")
    refused(octavo("train", "--resume", "--out", "old"), "old does not exist", "there is runs/old")
    refused(octavo("train", "--overwrite", "--text", "book.txt"), "add --out DIR")
    assert before == {path: path.stat().st_mtime_ns for path in (home / "runs").rglob("*")}
    shutil.rmtree(home / "runs")
    for verb in (
        ("write",),
        ("chat",),
        ("translate",),
        ("forecast",),
        ("export", "--to", "hf", "--out", "x"),
    ):
        refused(octavo(*verb), "Which run? There is none in runs.", "octavo train --text PATH makes one")


def test_a_text_without_its_option(octavo: Octavo, home: Path) -> None:
    for command, meant in (
        ("train book.txt --minutes 1", "octavo train --text book.txt --minutes 1"),
        ("plan book.txt --minutes 1,5", "octavo plan --text book.txt --minutes 1,5"),
        ("train book.txt", "octavo train --text book.txt "),
        ("train quick book.txt", "a text goes after --text: --text book.txt"),
        ("eval old book.txt", "octavo eval old --text book.txt"),
        ("eval book.txt", "--text book.txt"),
        ("train runs --minutes 1", "octavo train --text runs --minutes 1"),
    ):
        refused(octavo(*command.split()), f"  → {meant}")


def test_a_run_that_is_taken_for_something_else(octavo: Octavo, home: Path) -> None:
    refused(
        octavo("train", "runs/old"), "a run or a study, not a recipe", "octavo train --out runs/old --resume "
    )
    refused(
        octavo("train", "runs/old", "--minutes", "2"), "octavo train --out runs/old --resume --minutes 2 "
    )
    for verb in ("train recipe.yaml", "train --minutes 1", "plan recipe.yaml", "corpus stats", "eval old"):
        refused(octavo(*verb.split(), "--text", "runs/old"), "what Octavo wrote of a text", "corpus.paths")
    (home / "study").mkdir()
    (home / "study" / "study.yaml").write_text("{}")
    (home / "study" / "runs").mkdir()
    refused(octavo("train", "study"), "octavo study run study/study.yaml --out study ")


def test_a_prompt_without_its_option(octavo: Octavo, home: Path) -> None:
    refused(octavo("generate", "old", "It was"), "→ octavo generate old --prompt 'It was'")
    refused(
        octavo("generate", "old", "It", "was", "--json"), "→ octavo generate old --json --prompt 'It was'"
    )
    refused(octavo("generate", "It was"), "There is no run 'It was'", "--prompt 'It was'")
    refused(octavo("info", "old", "more"), "octavo info does not take 'more'.", "octavo info --help")


def test_minutes_with_spaces_between_them(octavo: Octavo, home: Path) -> None:
    for words in ("1 5", "1, 5", "1,5 30"):
        meant = words.replace(",", " ").split()
        refused(octavo("plan", "--minutes", *words.split()), f"  → --minutes {','.join(meant)}")
    refused(octavo("train", "--text", "book.txt", "--minutes", "1", "5"), "one number", "--minutes 1,5")


def test_a_setting_that_is_written_like_an_option(octavo: Octavo, home: Path) -> None:
    for words, meant in (
        ("--layers 2", "in place of --layers 2: model.layers=2"),
        ("--layers=2", "in place of --layers 2: model.layers=2"),
        ("--model.layers 2", "in place of --model.layers 2: model.layers=2"),
        ("--lr 0.1", "training.optimizer.learning_rate=0.1"),
        ("--learning-rate 0.1", "training.optimizer.learning_rate=0.1"),
        ("--seed", "seed=VALUE"),
    ):
        for verb in ("train", "plan"):
            refused(octavo(verb, "--text", "book.txt", *words.split()), meant)
    refused(octavo("generate", "old", "--layers", "2"), "Unknown option: --layers")
    refused(octavo("train", "--nonsense", "2"), "Unknown option: --nonsense")


def test_a_recipe_behind_the_texts(octavo: Octavo) -> None:
    refused(octavo("train", "--text", "text.txt", "quick"), "'quick' is a recipe; put it before --text")
    refused(octavo("train", "--text", "text.txt", "elsewhere/quick"), "Check the path")


def test_minutes_that_are_no_number(octavo: Octavo) -> None:
    refused(
        octavo("train", "--text", "text.txt", "--minutes", "5m"), "a number of minutes; '5m'", "--minutes 0.5"
    )
    refused(
        octavo("train", "--text", "text.txt", "--minutes", "nan"),
        "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not nan",
    )
    refused(octavo("plan", "--text", "text.txt", "--minutes", "5m"), "'5m' is something else")


def test_wrong_settings(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(train(octavo, out, "model.layer=3"), "model.layer is not an option; did you mean model.layers?")
    refused(train(octavo, out, "steps=3"), "did you mean training.steps?")
    refused(train(octavo, out, "model.layers=many"), "model.layers", "'many'")
    refused(train(octavo, out, "tokenizer=chars"), "there is no tokenizer 'chars'; did you mean char?")
    refused(train(octavo, out, "model.layers=0"), "model.layers", "not 0")
    several = train(octavo, out, "model.layers=0", "training.batch=-1", "modle.width=2")
    refused(several, "3 problems", "model.layers", "training.batch", "modle", "did you mean model?")
    refused(train(octavo, out, "training.epochs=2", "training.steps=~"), "draws at random", "batches=sliding")
    refused(train(octavo, out, "training.epochs=2"), "steps or epochs, not both")
    refused(train(octavo, out, "training.device=warp"), "no device 'warp'", "training.device=cpu")
    refused(train(octavo, out, "sampling.temperature=-1"), "sampling.temperature")
    refused(train(octavo, out, "training: [3"), "is not an override")
    refused(train(octavo, out, "training.teachers.runs=nowhere"), "nowhere does not exist")
    refused(train(octavo, out, "training.teachers.runs=text.txt"), "is not a run folder")
    refused(train(octavo, out, "training.teachers.written=9999"), "nobody is there to write")
    assert not out.exists()


def test_recipes_that_are_none(octavo: Octavo) -> None:
    for name, content, words in (
        ("list.yaml", "- a\n- b\n", "a recipe is a mapping"),
        ("broken.yaml", "model: {layers: 3\n", "is not valid YAML"),
        ("twice.yaml", "seed: 1\nseed: 2\n", "'seed' stands twice"),
        ("empty.yaml", "", "holds no keys"),
    ):
        (octavo.folder / name).write_text(content)
        refused(octavo("train", name, "--text", "text.txt"), words)
    (octavo.folder / "binary.yaml").write_bytes(b"\xff\xfe\x00\x81")
    refused(octavo("train", "binary.yaml", "--text", "text.txt"), "not a text file")


def test_wrong_texts(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (octavo.folder / "empty.txt").write_text("")
    (octavo.folder / "blank.txt").write_text("\n \n\t\n")
    (octavo.folder / "short.txt").write_text("a b c d e f")
    (octavo.folder / "binary.txt").write_bytes(bytes(range(256)) * 40)
    (octavo.folder / "hollow").mkdir()
    (octavo.folder / "pictures").mkdir()
    (octavo.folder / "pictures" / "cat.png").write_bytes(b"\x89PNG")
    refused(octavo("train", "recipe.yaml", "--out", out), "needs a text", "--text PATH")
    refused(train(octavo, out, text="nowhere.txt"), "nowhere.txt")
    refused(train(octavo, out, text="empty.txt"), "empty")
    refused(train(octavo, out, text="blank.txt"))
    refused(train(octavo, out, text="binary.txt"), "binary.txt")
    refused(train(octavo, out, text="hollow"), "hollow")
    refused(train(octavo, out, text="pictures"), "pictures")
    refused(train(octavo, out, text="short.txt"), "context")
    refused(train(octavo, out, "model.context=100000"), "context")
    assert not out.exists(), "a refused command leaves its name free"
    assert train(octavo, out, "training.steps=2").code == 0


def test_a_folder_that_is_in_the_way(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    before = (finished / "manifest.json").read_bytes()
    refused(train(octavo, finished), "holds a run already", "--resume")
    assert (finished / "manifest.json").read_bytes() == before
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"\x89PNG")
    refused(train(octavo, tmp_path / "photos"), "is not empty")
    (tmp_path / "file").write_text("x")
    refused(train(octavo, tmp_path / "file"), "is a file")
    refused(train(octavo, tmp_path / "file" / "run"), "is a file", "--out")
    assert (tmp_path / "photos" / "cat.png").is_file()


def test_a_folder_that_is_not_there(octavo: Octavo, tmp_path: Path) -> None:
    for verb in ("generate", "eval", "info"):
        refused(
            octavo(verb, tmp_path / "nowhere"), "does not exist", "octavo runs lists", "octavo train RECIPE"
        )
        refused(octavo(verb, tmp_path), "is not a run folder")
    refused(octavo("train", "--replay", tmp_path / "nowhere"), "does not exist")
    refused(train(octavo, tmp_path / "nowhere", "--resume"), "does not exist")
    refused(
        octavo("train", "recipe.yaml", "--text", "text.txt", "--resume"),
        "--resume needs the folder of the run",
    )


def test_going_on_with_something_else(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    refused(
        train(octavo, finished, "--resume", "model.layers=2", "seed=4"),
        "model.layers: 1 in the run, 2 now",
        "seed: 1337",
    )
    out = tmp_path / "run"
    text = octavo.folder / "changing.txt"
    text.write_bytes((octavo.folder / "text.txt").read_bytes())
    assert train(octavo, out, "training.steps=2", text="changing.txt").code == 0
    text.write_text(text.read_text().replace("lazy", "hazy", 1))
    refused(train(octavo, out, "training.steps=2", "--resume", text="changing.txt"), "text has changed")


def test_a_sampling_prompt_that_cannot_be_read_is_said_before_the_training(
    octavo: Octavo, tmp_path: Path
) -> None:
    """It once failed after the last step, when the last sample was to be written."""
    result = train(octavo, tmp_path / "run", "sampling.prompt=£")
    refused(result, "'£'")
    assert "step 1/" not in result.err
    assert not (tmp_path / "run").exists()


def test_wrong_prompts_and_numbers(octavo: Octavo, finished: Path) -> None:
    refused(octavo("generate", finished, "--prompt", "été 7"), "'é'", "'7'")
    refused(octavo("generate", finished, "--prompt", "-", stdin=b"\xff\xfe"), "not UTF-8")
    refused(octavo("generate", finished, "--tokens", "-4"), "--tokens")
    refused(octavo("generate", finished, "--tokens", "few"), "tokens")
    refused(octavo("generate", finished, "--temperature", "-1"), "--temperature")
    refused(octavo("generate", finished, "--temperature", "nan"), "temperature")
    refused(octavo("generate", finished, "--top-p", "1.5"), "--top-p")
    refused(octavo("generate", finished, "--top-k", "0"), "--top-k")
    refused(octavo("generate", finished, "--samples", "0"), "--samples")
    refused(octavo("generate", finished, "--checkpoint", "999"), "no checkpoint '999'", "step-000040")
    assert octavo("generate", finished, "--checkpoint", "step-000040", "--tokens", "3").code == 0


def test_checkpoints_of_another_version(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        path = checkpoint.folder / "MANIFEST.json"
        manifest = json.loads(path.read_text()) | {"format": 7, "octavo": "8.1.0"}
        manifest.pop("sha256")
        path.write_text(json.dumps({**manifest, "sha256": seal(manifest)}))
    refused(octavo("generate", out), "format 7", "reads format 1", code=1)
    refused(octavo("generate", out / "last"), "format 7", "octavo 8.1.0", code=1)
    assert "format 7" in octavo("info", out).out


def test_a_run_without_a_checkpoint(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    shutil.rmtree(out / "checkpoints")
    refused(octavo("generate", out), "has no checkpoint yet", "--resume")


def test_the_second_trainer_on_a_folder_refuses(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = octavo.start("train", "recipe.yaml", "--text", "text.txt", "--out", out, "training.steps=100000")
    deadline = time.monotonic() + 60
    while not (out / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
    try:
        refused(train(octavo, out, "training.steps=100000", "--resume"), "another process")
        refused(train(octavo, out), "holds a run already")
        assert octavo("info", out).code == 0
    finally:
        first.signal(signal.SIGKILL)
        assert first.wait().code == -signal.SIGKILL
    done = train(
        octavo, out, "training.steps=100000", "--resume", "training.steps=1"
    )  # the lock died with its owner
    assert done.code == 0, done.err
    assert RunFolder(out).evaluation.is_file()


def test_a_reader_that_has_seen_enough(octavo: Octavo) -> None:
    head = subprocess.run(
        f"{sys.executable} -m octavo recipes --schema | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert head.stdout == '{\n "$defs"' or len(head.stdout) == 10
    assert head.stderr == ""
