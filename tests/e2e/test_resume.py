"""Train 40 = train k + resume, bit for bit, whatever ended the first part: a signal, kill -9, an error, any moment."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.forked import Octavo, Result, until
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import follow, list_checkpoints
from octavo.util.files import file_hash

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "resume_kill.py"
TIMES = ("seconds", "tokens_per_second")


def train(octavo: Octavo, out: Path, *more: str, **options: object) -> Result:
    return octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, *more, **options)


def results(out: Path) -> dict[str, object]:
    """What two runs have alike when they are the same: weights, optimizer state, metrics without times, judgement."""
    folder = RunFolder(out)
    found: dict[str, object] = {}
    for name, link in (("last", folder.last), ("best", folder.best)):
        checkpoint = follow(link)
        assert checkpoint is not None, f"{name} leads nowhere"
        checkpoint.verify()
        for file in ("model.safetensors", "state.safetensors"):
            found[f"{name}/{file}"] = file_hash(checkpoint.folder / file)
    found["rows"] = [{key: row[key] for key in row if key not in TIMES} for row in folder.rows()]
    judged = json.loads(folder.evaluation.read_text().replace(str(out), "RUN"))
    found["judged"] = {key: value for key, value in judged.items() if key not in ("seconds", "verdict")}
    return found


def named_halves(out: Path) -> list[str]:
    """Checkpoints with a name that are not whole."""
    return [
        c.folder.name
        for c in list_checkpoints(out / "checkpoints")
        if not (c.folder / "MANIFEST.json").is_file()
    ]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"


@pytest.fixture(scope="module")
def every_checkpoint(octavo: Octavo) -> Path:
    """A finished run that kept all its checkpoints."""
    out = octavo.folder / "kept"
    assert train(octavo, out, "training.keep=100").code == 0
    assert len(list_checkpoints(out / "checkpoints")) == 8
    return out


@pytest.mark.parametrize("step", [5, 20, 35])
def test_the_run_goes_on_from_every_checkpoint(
    octavo: Octavo, finished: Path, every_checkpoint: Path, tmp_path: Path, step: int
) -> None:
    out = tmp_path / "run"
    shutil.copytree(every_checkpoint, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > step:
            shutil.rmtree(checkpoint.folder)
    done = train(octavo, out, "--resume", "training.keep=100")
    assert done.code == 0, done.err
    assert f"resuming after step {step}" in done.err
    assert results(out) == results(finished)


def test_another_seed_is_another_run(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    """The comparison above can fail: another seed gives other weights."""
    assert train(octavo, tmp_path / "run", "seed=5").code == 0
    assert results(tmp_path / "run")["last/model.safetensors"] != results(finished)["last/model.safetensors"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_ends(octavo: Octavo, tmp_path: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("the tests run under nohup")
    long = "training.steps=2000"
    out = tmp_path / "run"
    command = octavo.start(
        "train", "recipe.yaml", "--text", "text.txt", "--out", out, long, "training.checkpoint_every=2000"
    )
    wait_for(out / "metrics.jsonl")
    command.signal(number)
    stopped = command.wait()
    assert stopped.code == 130
    assert f"Stopped by {number.name} after step" in stopped.err
    assert "--resume" in stopped.err
    assert "error" not in stopped.err
    newest = max(checkpoint.step for checkpoint in list_checkpoints(out / "checkpoints"))
    assert f"after step {newest} of 2000" in stopped.err
    assert RunFolder(out).rows()[-1]["step"] == newest


def test_a_stop_prints_the_command_that_resumes(
    octavo: Octavo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(octavo.folder / "text.txt", tmp_path)
    shutil.copy(octavo.folder / "recipe.yaml", tmp_path)
    monkeypatch.setattr(octavo, "folder", tmp_path)
    running = octavo.start(
        "train", "recipe.yaml", "--text", "text.txt", "training.steps=2000"
    )  # in runs/recipe
    wait_for(tmp_path / "runs" / "recipe" / "metrics.jsonl")
    running.signal(signal.SIGINT)
    stopped = running.wait()
    assert stopped.code == 130, stopped
    (command,) = re.findall(r"→ octavo (.*) {4}continues it", stopped.err)
    again = octavo.start(*shlex.split(command))
    step = int(re.findall(r"after step (\d+) of 2000", stopped.err)[0])
    log = tmp_path / "runs" / "recipe" / "log.txt"
    until(lambda: f"resuming after step {step}" in log.read_text())
    again.signal(signal.SIGINT)
    assert again.wait().code in (0, 130)


def test_an_interruption_that_a_library_makes_an_error_of_is_one(octavo: Octavo, tmp_path: Path) -> None:
    before = train(octavo, tmp_path / "before", patch="interrupted_before")
    assert (before.code, before.err.splitlines()[-1]) == (130, "interrupted")
    again = train(octavo, tmp_path / "again", patch="interrupted_again")
    *_, interrupted, resumed = again.err.splitlines()
    assert (again.code, interrupted) == (130, "interrupted")
    assert resumed.startswith("  → octavo train") and resumed.endswith("continues it")
    assert train(octavo, tmp_path / "again", "--resume").code == 0
    failed = train(octavo, tmp_path / "failed", patch="failed_by_itself")
    assert failed.code == 99 and "the words of a library" in failed.err and "continues it" not in failed.err


def test_a_finished_run_that_resumes_says_that_it_was(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    again = train(octavo, out, "--resume")
    assert again.code == 0 and "the run was finished after step 40: nothing is trained" in again.err
    assert results(out) == results(finished)


def test_a_stopped_run_ends_like_one_that_was_not(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stops = 0
    while stops < 6:
        command = octavo.start(
            "train", "recipe.yaml", "--text", "text.txt", "--out", out, *(["--resume"] if stops else [])
        )
        before = len(RunFolder(out).rows())
        deadline = time.monotonic() + 60
        while len(RunFolder(out).rows()) <= before and time.monotonic() < deadline:
            pass
        command.signal(signal.SIGTERM)
        ended = command.wait()
        stops += 1
        if ended.code != 130:
            break
    done = train(octavo, out, "--resume")
    assert done.code == 0, done.err
    assert results(out) == results(finished)


def test_the_second_signal_ends_at_once(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = octavo.start(
        "train",
        "recipe.yaml",
        "--text",
        "text.txt",
        "--out",
        out,
        "training.steps=100000",
        patch="slow_steps",
    )
    wait_for(out / "metrics.jsonl")
    time.sleep(1)  # into the ten seconds of the second step
    command.signal(signal.SIGINT)
    time.sleep(1)  # two signals at one moment are one
    command.signal(signal.SIGINT)
    ended = command.wait()
    assert ended.code == 130
    last, remedy = ended.err.splitlines()[-2:]
    assert last == "interrupted" and remedy.split() == [
        *f"→ octavo train --out {out} --resume continues it".split()
    ]
    assert "Stopped by" not in ended.err
    assert list_checkpoints(out / "checkpoints") == []


def test_an_early_stop_stays_one(octavo: Octavo, tmp_path: Path) -> None:
    """A resume once trained one step further each time."""
    out = tmp_path / "run"
    settings = [
        "training.patience=1",
        "training.optimizer.learning_rate=3",
        "evaluation.every=2",
        "training.clip=1000",
    ]
    first = train(octavo, out, *settings)
    assert first.code == 0, first.err
    assert "stopping early" in first.err
    before = results(out)
    again = train(octavo, out, *settings, "--resume")
    assert again.code == 0, again.err
    assert results(out) == before


def test_more_steps_for_a_finished_run(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    done = train(octavo, out, "--resume", "training.steps=44")
    assert done.code == 0, done.err
    assert "resuming with training.steps=44 (was 40)" in done.err
    assert RunFolder(out).rows()[-1]["step"] == 44


# --- kill -9 -----------------------------------------------------------------------------------------------------


def kills(number: int, seed: int) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", str(number), "--seed", str(seed)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_kills_at_random_moments() -> None:
    counted = kills(16, seed=2)
    assert (counted["kills"], counted["identical"], counted["named_halves"]) == (16, 16, 0)
    assert counted["in_save"] >= 4


SHORT = ("training.steps=4", "training.checkpoint_every=2", "evaluation.every=2", "logging.every=1")


@pytest.fixture(scope="module")
def short(octavo: Octavo, finished: Path) -> tuple[Path, int]:
    """A run of four steps and two saves, and how many file operations it takes. `finished` has left its text and its
    baselines in the cache, so that every such run takes as many.
    """
    out = octavo.folder / "short"
    done = train(octavo, out, *SHORT, "training.keep=1", watch=out)
    assert done.code == 0, done.err
    return out, done.operations


def killed_before_operation(octavo: Octavo, short: tuple[Path, int], out: Path, number: int) -> None:
    died = train(octavo, out, *SHORT, "training.keep=1", watch=out, die_at=number)
    assert died.code == -signal.SIGKILL, died.err
    assert named_halves(out) == []
    done = train(
        octavo, out, *SHORT, "training.keep=1", *(["--resume"] if (out / "config.yaml").is_file() else [])
    )
    assert done.code == 0, f"operation {number}: {done.err}"
    assert results(out) == results(short[0]), f"killed before file operation {number}"
    assert not list((out / "checkpoints").glob(".tmp-*"))
    shutil.rmtree(out)


@pytest.mark.parametrize("share", [0.4, 0.7])
def test_killed_in_the_middle(octavo: Octavo, short: tuple[Path, int], tmp_path: Path, share: float) -> None:
    killed_before_operation(octavo, short, tmp_path / "run", round(share * short[1]))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 9))  # in parts, so that several cores share them
def test_killed_before_every_file_operation(
    octavo: Octavo, short: tuple[Path, int], tmp_path: Path, first: int
) -> None:
    assert short[1] > 60
    for number in range(first, short[1] + 1, 8):
        killed_before_operation(octavo, short, tmp_path / "run", number)


# --- numbers that are none ---------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_ends_the_run_in_its_step(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    ended = train(octavo, out, patch="poison")
    assert ended.code == 1
    assert "Step 13 diverged: the loss is nan, on batch 12" in ended.err
    assert "learning_rate" in ended.err
    assert "Traceback" not in ended.err
    assert [c.step for c in list_checkpoints(out / "checkpoints")] == [5, 10]
    assert RunFolder(out).rows()[-1]["step"] < 13
    done = train(octavo, out, "--resume")  # the poison is gone: nothing of it stayed
    assert done.code == 0, done.err
    assert results(out) == results(finished)


@pytest.mark.parametrize("rate", ["1e6", "1e30", "1e39"])
def test_a_rate_that_is_far_too_high_saves_no_infinite_weight(
    octavo: Octavo, tmp_path: Path, rate: str
) -> None:
    from safetensors.torch import load_file

    out = tmp_path / "run"
    ended = train(
        octavo,
        out,
        f"training.optimizer.learning_rate={rate}",
        "training.checkpoint_every=1",
        "training.clip=~",
    )
    assert "Traceback" not in ended.err
    assert ended.code == (0 if ended.err.count("diverged") == 0 else 1), ended.err
    for checkpoint in list_checkpoints(out / "checkpoints"):
        checkpoint.verify()
        for file in ("model.safetensors", "state.safetensors"):
            assert all(tensor.isfinite().all() for tensor in load_file(checkpoint.folder / file).values())
    for row in RunFolder(out).rows():
        assert row["loss"] == row["loss"] and abs(row["loss"]) != float("inf")
    if rate == "1e39":
        assert "diverged" in ended.err
        assert "new run" in ended.err


# --- damage ------------------------------------------------------------------------------------------------------


def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_goes_on(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    weights = out / "checkpoints" / "step-000040" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)

    written = octavo("generate", out, "--tokens", "5")
    assert written.code == 0
    assert "step-000040" in written.err and "Using step-000035 instead" in written.err
    assert ".py" not in written.err

    done = train(octavo, out, "--resume")
    assert done.code == 0, done.err
    assert "damaged: " in done.err and "resuming after step 35" in done.err
    assert (out / "checkpoints" / "damaged-step-000040" / "model.safetensors").read_bytes() == content
    assert results(out) == results(finished)


def test_without_a_whole_checkpoint_the_run_says_so_and_touches_nothing(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        (checkpoint.folder / "state.json").unlink()
    before = sorted((out / "checkpoints").rglob("*"))
    for _ in range(2):
        done = train(octavo, out, "--resume")
        assert done.code == 1
        assert "No checkpoint" in done.err and "is whole" in done.err
        assert sorted((out / "checkpoints").rglob("*")) == before
    used = octavo("generate", out)
    assert used.code == 1
    assert "No checkpoint" in used.err


def test_a_run_that_was_copied_with_its_links_followed(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    assert (out / "last").is_dir() and not (out / "last").is_symlink()
    assert json.loads(octavo("generate", out, "--json").out)["step"] == 40
    done = train(octavo, out, "--resume", "training.steps=45")
    assert done.code == 0, done.err
    assert json.loads(octavo("generate", out, "--checkpoint", "last", "--json").out)["step"] == 45
