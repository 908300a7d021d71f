"""Words, files and shapes that nothing can be done with: each a sentence, before anything is taken or begun."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.asking import refused, train
from e2e.forked import Octavo
from octavo.training.checkpoint_folder import seal

LONG = "x" * 300


def test_names_longer_than_a_name_can_be(octavo: Octavo, tmp_path: Path) -> None:
    refused(octavo("train", LONG), "There is no recipe")
    refused(train(octavo, tmp_path / LONG), "File name too long")
    refused(train(octavo, tmp_path / "run", text=LONG), "File name too long")
    refused(octavo("info", LONG), "File name too long")
    refused(octavo("study", "report", LONG), "File name too long")
    refused(octavo("study", "run", LONG), "There is no study")
    shown = octavo("train", "recipe.yaml", "--dry-run", "--text", "text.txt", f"description={LONG}")
    assert shown.code == 0, shown.err
    assert LONG in shown.out.replace("\n", "").replace(" ", "")


def test_words_that_are_no_text(octavo: Octavo, finished: Path) -> None:
    program = "import os, sys; from octavo.cli import main; main()"
    for words in (
        ("generate", finished, "--prompt", b"\xff"),
        ("train", b"caf\xe9.yaml"),
        ("info", b"\xed\xa0\x80"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "is not UTF-8 text" in done.stderr) == (2, True), done.stderr
    (octavo.folder / "half.json").write_text('["\\ud800"]')
    (octavo.folder / "half.yaml").write_text('- "\\ud800"')
    for name in ("half.json", "half.yaml"):
        refused(octavo("generate", finished, "--prompts", name), name)


def test_files_that_open_and_cannot_be_read(octavo: Octavo, tmp_path: Path) -> None:
    if Path("/proc/self/mem").exists():
        refused(train(octavo, tmp_path / "run", text="/proc/self/mem"), "/proc/self/mem cannot be read")


def test_shapes_beyond_the_machine(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(train(octavo, out, "model.width=1000000"), "of memory", "can be had", "smaller model.width")
    refused(train(octavo, out, "training.batch=99999999999"), "training.batch", "2147483647")
    refused(train(octavo, out, "training.batch=2147483647"), "of memory", "training.batch")
    refused(train(octavo, out, "model.layers=100000000"), "model.layers", "10000")
    refused(train(octavo, out, "training.threads=100000"), "training.threads", "1024")
    refused(train(octavo, out, "training.threads=1000"), "threads are too many")
    refused(train(octavo, out, "training.threads=99999999999999999999"), "training.threads", "2^53")
    refused(train(octavo, out, "training.optimizer.betas=[0.9, 1]"), "betas", "less than 1")
    refused(octavo("plan", "recipe.yaml", "--vocabulary", "300", "model.width=1000000"), "of memory")
    many = octavo("generate", finished, "--samples", "2000000000", "--tokens", "5")
    refused(many, "texts at once take", "at most")
    refused(octavo("generate", finished, "--temperature", "nan"), "temperature")
    refused(octavo("plan", "recipe.yaml", "--vocabulary", "0"), "vocabulary")
    assert not out.exists()


@pytest.mark.parametrize("module", ["cyclopts", "octavo.cli.eval", "pydantic", "numpy", "torch"])
def test_an_interrupt_during_the_imports(module: str, tmp_path: Path) -> None:
    """Whatever is being imported when Ctrl-C comes."""
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job has it ignored
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from octavo.cli import main\n"
        "main(['eval', 'nothing'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def resealed(checkpoint: Path, name: str, content: bytes) -> None:
    """Put a file into a checkpoint as if it had been written with it."""
    import hashlib

    (checkpoint / name).write_bytes(content)
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    manifest.pop("sha256", None)
    entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"][name] = entry
    manifest["sha256"] = seal(manifest)
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest))


def test_run_folders_with_rows_and_records_of_other_shapes(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(finished, tmp_path / name, symlinks=True))

    run = copy("rows")
    rows = run / "metrics.jsonl"
    rows.write_bytes(b'5\n[1]\nnull\n"x"\n\xff\xfe\n{}\n' + rows.read_bytes())
    done = octavo("eval", run, "--json")
    assert done.code == 0, done.err
    for name, content in (
        ("empty", "{}"),
        ("nulls", '{"octavo": null, "data": null}'),
        ("list", "[]"),
        ("gone", ""),
    ):
        run = copy(name)
        (run / "manifest.json").write_text(content)
        refused(octavo("info", run), "manifest.json", code=1)
        refused(
            octavo("train", "recipe.yaml", "--text", "text.txt", "--out", run, "--resume"),
            "manifest.json",
            code=1,
        )
    run = copy("bit")
    config = bytearray((run / "config.yaml").read_bytes())
    config[20] ^= 0x80
    (run / "config.yaml").write_bytes(config)
    refused(octavo("info", run), "config.yaml")
    run = copy("state")
    for checkpoint in sorted((run / "checkpoints").iterdir()):
        resealed(checkpoint, "state.json", b'{"step": 40, "more": 1}')
    refused(octavo("info", run), "state.json", "Field required", code=1)
    refused(
        octavo("train", "recipe.yaml", "--text", "text.txt", "--out", run, "--resume"), "state.json", code=1
    )
    run = copy("listing")
    manifest = {"format": 1, "octavo": "0.1.0", "files": None}
    for checkpoint in sorted((run / "checkpoints").iterdir()):
        (checkpoint / "MANIFEST.json").write_text(json.dumps({**manifest, "sha256": seal(manifest)}))
    refused(octavo("generate", run), "MANIFEST.json", "Field required", code=1)


def test_files_that_are_no_files(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "run", symlinks=True))
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    assert octavo("eval", run, "--json").code == 0
    (run / "manifest.json").unlink()
    Path(run / "manifest.json").symlink_to("nowhere")
    assert octavo("info", run).code == 0
