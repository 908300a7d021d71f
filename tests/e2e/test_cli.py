"""The command line as people use it: the whole road."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.asking import refused, train
from e2e.forked import Octavo
from octavo.cli.app import VERBS as GROUPS
from octavo.config import recipe_names

VERBS = (
    "demo",
    "train",
    "generate",
    "write",
    "eval",
    "runs",
    "compare",
    "plan",
    "recipes",
    "doctor",
    "info",
    "completion",
)
KEYS = {
    "val_loss",
    "perplexity",
    "bits_per_byte",
    "accuracy",
    "tokens",
    "bytes",
    "parameters",
    "step",
    "baselines",
}


# --- the road ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def helped(octavo: Octavo) -> str:
    """What `octavo --help` says."""
    return octavo("--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples(octavo: Octavo, helped: str, verb: str) -> None:
    told = octavo(verb, "--help")
    assert told.code == 0
    assert "For example:" in told.out
    assert f"octavo {verb}" in told.out.partition("For example:")[2]
    assert f"  {verb}" in helped or verb in helped.split()


def test_the_real_programs_start() -> None:
    """The installed command and `python -m octavo`, without the server that the other tests use."""
    told = subprocess.run([sys.executable, "-m", "octavo", "--version"], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+ \((commit [0-9a-f]{12}\+?, )?kernels: [\w .-]+\)\n", told.stdout)
    wrong = subprocess.run([sys.executable, "-m", "octavo", "trian"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert 'Did you mean "train"?' in wrong.stderr


def test_the_help_does_not_import_torch() -> None:
    code = (
        "import sys, octavo.cli\n"
        "try: octavo.cli.main(['--help'])\nexcept SystemExit: sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_training_ends_with_the_report_on_the_last_line(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train(octavo, out, "--quiet", "training.steps=6", patch="drawn")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"report: {out}/report/index.html\n"
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert not re.search(r"(src|href)=.https?:", page)


def test_the_run_folder_holds_what_it_should(finished: Path) -> None:
    there = {path.name for path in finished.iterdir()}
    assert there >= {"config.yaml", "manifest.json", "metrics.jsonl", "log.txt", "tokenizer", "checkpoints"}
    assert there >= {"best", "last", "samples", "evaluation.json", "report"}
    for link in ("best", "last"):
        assert (finished / link / "model.safetensors").is_file()
    assert "validation" in (finished / "log.txt").read_text()


def test_eval(octavo: Octavo, finished: Path) -> None:
    judged = json.loads(octavo("eval", finished, "--json").out)
    assert judged.keys() >= KEYS
    stored = json.loads((finished / "evaluation.json").read_text())
    assert {key: judged[key] for key in KEYS} == {key: stored[key] for key in KEYS}
    shown = octavo("eval", finished)
    assert shown.code == 0
    assert "this model" in shown.out and "unigram" in shown.out and "perplexity" in shown.out


def test_eval_on_another_text(octavo: Octavo, finished: Path) -> None:
    (octavo.folder / "other.txt").write_text("the cat saw the fox.\n" * 20)
    judged = json.loads(octavo("eval", finished, "--text", "other.txt", "--json").out)
    assert judged["bytes"] == 420
    assert octavo("eval", finished, "--text", "-", "--json", stdin=b"the cat saw the fox.\n" * 20).code == 0
    (octavo.folder / "greek.txt").write_text("και το cat" * 20)
    refused(octavo("eval", finished, "--text", "greek.txt"), "vocabulary lacks", "'κ'")


def test_generate(octavo: Octavo, finished: Path) -> None:
    plain = octavo("generate", finished, "--prompt", "the ", "--tokens", "12")
    assert plain.out.startswith("the ") and len(plain.out) == 4 + 12 + 1
    assert octavo("generate", finished, "--prompt", "the ", "--tokens", "12").out == plain.out
    assert octavo("generate", finished, "--prompt", "the ", "--tokens", "12", "--seed", "1").out != plain.out
    assert octavo("generate", finished, "--prompt", "-", "--tokens", "12", stdin=b"the \n").out == plain.out
    assert octavo("generate", finished / "best", "--prompt", "the ", "--tokens", "12").out == plain.out


def test_generate_json_tells_log_probabilities(octavo: Octavo, finished: Path) -> None:
    written = json.loads(
        octavo("generate", finished, "--prompt", "the ", "--tokens", "9", "--samples", "3", "--json").out
    )
    assert written["step"] == 40
    assert len(written["samples"]) == 3
    for sample in written["samples"]:
        assert sample["finish"] == "length"
        assert len(sample["tokens"]) == 9
        assert "".join(token["text"] for token in sample["tokens"]).replace("\\n", "\n") == sample["text"]
        assert all(token["log_probability"] < 0 for token in sample["tokens"])
    shown = octavo("generate", finished, "--prompt", "the ", "--tokens", "9", "--samples", "3").out
    assert shown.count("the ") >= 3
    assert all(sample["text"] in shown for sample in written["samples"])


def test_generate_stops_before_a_text(octavo: Octavo, finished: Path) -> None:
    free = octavo("generate", finished, "--tokens", "50").out[:-1]
    stop = free[20:22]
    assert octavo("generate", finished, "--tokens", "50", "--stop", stop).out[:-1] == free[: free.index(stop)]


def test_info(octavo: Octavo, finished: Path) -> None:
    facts = json.loads(octavo("info", finished, "--json").out)
    assert facts["step"] == 40 and facts["finished"] is True
    assert facts["checkpoints"]["step-000040"] == "whole, best, last"
    assert "whole" in octavo("info", finished).out
    assert json.loads(octavo("info", finished / "last", "--json").out)["step"] == 40


def test_replay_says_bit_for_bit(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    again = octavo("train", "--replay", finished, "--out", tmp_path / "again")
    assert again.code == 0, again.err
    assert "repeated bit for bit" in again.out
    rows = (finished / "metrics.jsonl").read_text().splitlines()
    changed = tmp_path / "changed"
    shutil.copytree(finished, changed, symlinks=True)
    row = json.loads(rows[3])
    rows[3] = json.dumps({**row, "loss": row["loss"] + 1e-9})
    (changed / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    other = octavo("train", "--replay", changed, "--out", tmp_path / "third")
    assert other.code == 1
    assert f"differs: the losses differ (first at step {row['step']})" in other.out
    assert "the weights" not in other.out


def test_plan(octavo: Octavo, finished: Path) -> None:
    facts = json.loads(octavo("plan", "recipe.yaml", "--text", "text.txt", "--json").out)
    assert facts["parameters"] == json.loads((finished / "evaluation.json").read_text())["parameters"]
    shown = octavo("plan", "recipe.yaml", "--text", "text.txt", "model.width=512", "training.steps=4000")
    assert shown.code == 0
    assert "warning:" in shown.out and "over-fit" in shown.out
    assert octavo("plan", "recipe.yaml", "--vocabulary", "30", "--json").code == 0
    refused(octavo("plan", "recipe.yaml"), "How large the vocabulary is", "--text PATH")


def test_plan_for_machines_elsewhere(octavo: Octavo) -> None:
    asked = ("plan", "recipe.yaml", "--vocabulary", "30")
    facts = json.loads(octavo(*asked, "--on", "h100,8xh100", "--on", "laptop", "--price", "2", "--json").out)
    assert [found["machine"] for found in facts["predictions"]] == ["h100", "8xh100", "8xh100", "laptop"]
    shown = octavo(*asked, "--on", "8xh100").out
    assert "fsdp" in shown and "Predicted, not measured" in shown and "one step here" not in shown
    assert "rtx4090" in octavo(*asked, "--on", "list").out
    assert "h100" in json.loads(octavo(*asked, "--on", "list", "--json").out)
    refused(octavo(*asked, "--on", "h300"), "no machine 'h300'", "8xh100")


def test_recipes(octavo: Octavo) -> None:
    assert "shakespeare-char-cpu" in octavo("recipes").out
    one = octavo("recipes", "shakespeare-char-cpu").out
    assert yaml.safe_load(one)["model"]["layers"] == 4
    schema = json.loads(octavo("recipes", "--schema").out)
    assert "training" in schema["properties"]
    assert {"name", "description"} == set(json.loads(octavo("recipes", "--json").out)[0])


def test_without_a_recipe_the_one_of_a_minute_is_taken(octavo: Octavo, tmp_path: Path) -> None:
    small = ("model.layers=1", "model.width=16", "training.precision=float32")
    out = tmp_path / "run"
    first = octavo("train", "training.steps=3", *small, "--text", "text.txt", "--out", out)
    assert first.code == 0, first
    (said,) = [line for line in first.err.splitlines() if line.startswith("recipe: ")]
    assert "minute, made for any text" in said and "quick" in said and "ten-minutes" in said
    resolved = octavo("train", "training.steps=3", *small, "--text", "text.txt", "--dry-run")
    assert yaml.safe_load(resolved.out) == yaml.safe_load((out / "config.yaml").read_text("utf-8"))
    named = octavo("train", "minute", "training.steps=3", *small, "--text", "text.txt", "--dry-run")
    assert resolved.out == named.out
    planned = octavo("plan", *small, "--text", "text.txt")
    assert planned.out.startswith("recipe: minute"), planned
    assert "steps" in json.loads(octavo("plan", *small, "--text", "text.txt", "--json").out)


def test_a_run_goes_on_with_its_own_recipe(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert train(octavo, out, "training.steps=4").code == 0
    more = octavo("train", "--out", out, "--resume", "training.steps=6")
    assert more.code == 0 and "recipe:" not in more.err, more
    assert "resuming with training.steps=6 (was 4)" in more.err
    assert (
        yaml.safe_load((out / "config.yaml").read_text("utf-8"))["description"] == "as small as a run can be"
    )


def test_the_recipes_for_any_text_come_first(octavo: Octavo) -> None:
    lines = octavo("recipes").out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    listed = re.findall(r"^  ([a-z][a-z0-9-]+)", "\n".join(lines), re.MULTILINE)
    assert listed[:3] == ["quick", "minute", "ten-minutes"]
    small = {f"{name}-cpu" for name in listed}
    assert set(listed) <= set(recipe_names()) <= {*listed, *small}, (
        "the new recipe goes into GROUPS of cli/recipes.py"
    )
    for verb in ("train", "plan"):
        helped = " ".join(octavo(verb, "--help").out.split())
        assert all(name in helped for name in listed[:3])


def test_verbs_are_listed_in_groups(helped: str) -> None:
    assert [helped.index(title) for title in GROUPS] == sorted(helped.index(title) for title in GROUPS)
    assert all(f" {verb} " in helped for verbs in GROUPS.values() for verb in verbs)


def test_studies_are_listed_without_letters_of_reports(octavo: Octavo) -> None:
    assert not re.search(r"\b[A-E]\b", octavo("study", "list").out)


def test_doctor(octavo: Octavo) -> None:
    shown = octavo("doctor")
    assert shown.code == 0
    assert "Python" in shown.out
    checks = json.loads(octavo("doctor", "--json").out)["checks"]
    assert all(check["ok"] or check["remedy"] for check in checks)


def test_settings_may_follow_the_texts(octavo: Octavo) -> None:
    (octavo.folder / "second.txt").write_text("a cat.\n")
    shown = octavo(
        "train", "recipe.yaml", "--text", "text.txt", "second.txt", "training.steps=7", "seed=3", "--dry-run"
    )
    assert shown.code == 0
    resolved = yaml.safe_load(shown.out)
    assert [Path(path).name for path in resolved["corpus"]["paths"]] == ["text.txt", "second.txt"]
    assert (resolved["training"]["steps"], resolved["seed"]) == (7, 3)
    again = octavo(
        "train",
        "recipe.yaml",
        "training.steps=7",
        "--text",
        "text.txt",
        "--text",
        "second.txt",
        "seed=3",
        "--dry-run",
    )
    assert again.out == shown.out


def test_a_dry_run_of_a_resume_shows_the_run_that_would_go_on(octavo: Octavo, tmp_path: Path) -> None:
    assert train(octavo, tmp_path / "run").code == 0
    shown = octavo("train", "--out", tmp_path / "run", "--resume", "training.steps=99", "--dry-run")
    assert shown.code == 0, shown.err
    found = yaml.safe_load(shown.out)
    kept = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text(encoding="utf-8"))
    assert found.pop("training") == kept.pop("training") | {"steps": 99} and found == kept
    refused(octavo("train", "--resume", "--dry-run"), "--resume needs the folder of the run")


def test_text_and_paths_together_are_refused(octavo: Octavo) -> None:
    for word in ("corpus.paths=[text.txt]", "corpus={kind: files, paths: [text.txt]}"):
        refused(octavo("train", "quick", "--text", "text.txt", word, "--dry-run"), "both say what to read")


def test_a_dry_run_writes_nothing(octavo: Octavo, tmp_path: Path) -> None:
    assert train(octavo, tmp_path / "run", "--dry-run").code == 0
    assert not (tmp_path / "run").exists()


def test_text_from_standard_input(octavo: Octavo, tmp_path: Path) -> None:
    text = (octavo.folder / "text.txt").read_bytes()
    done = octavo(
        "train", "recipe.yaml", "--text", "-", "--out", tmp_path / "run", "training.steps=2", stdin=text
    )
    assert done.code == 0, done.err
    data = json.loads((tmp_path / "run" / "manifest.json").read_text())["data"]
    assert data["splits"]["train"]["tokens"] + data["splits"]["validation"]["tokens"] == len(text.decode())


def test_options_without_effect_are_said(octavo: Octavo, tmp_path: Path) -> None:
    done = train(
        octavo,
        tmp_path / "run",
        "training.steps=4",
        "logging.every=9",
        "sampling.temperature=0",
        "sampling.top_k=3",
    )
    assert done.code == 0
    assert "warning: logging.every=9 has no effect" in done.err
    assert "warning: sampling.top_k=3 has no effect" in done.err
    assert "warning: sampling.top_k=3 has no effect" in (tmp_path / "run" / "log.txt").read_text()
