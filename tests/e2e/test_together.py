"""Several processes under torchrun: the same run as by one; deaths, hangs and signals leave a run that goes on."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.forked import Octavo
from octavo.run.folder import RunFolder
from octavo.training.checkpoint_folder import list_checkpoints

SETTINGS = (
    "model.dropout=0",
    "sampling.every=20",
    "training.batch=8",
    "training.accumulation=2",
    "model.layers=2",
    "model.width=32",
)
WHEN = 'os.environ["RANK"] == "1" and info.step == 23'
TIMEOUT = 8  # seconds; a machine that is busy must not look like a hang

# The command line, with something that happens to a rank after a step.
FAULTY = """\
import os, signal, sys, time
from octavo.cli import main
from octavo.run.trainer import Trainer

after = Trainer.after_step

def faulty(self, info):
    after(self, info)
    if ({when}) and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        {fault}

Trainer.after_step = faulty
main(sys.argv[1:])
"""
FAULTS = {
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
    "stops": "os.kill(os.getpid(), signal.SIGSTOP)",
    "sleeps": "time.sleep(1000)",
    "raises": "raise KeyError('no room')",
    "no_memory": "raise MemoryError('no room')",
    "waited": "self._saved -= 1e6",
}


def words_for(out: Path, *more: str) -> list[str]:
    return ["train", "recipe.yaml", "--text", "text.txt", "--out", str(out), *SETTINGS, *more]


def torchrun(
    octavo: Octavo, out: Path, *more: str, fault: str = "", options: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """A training by two processes, begun; standard error in a file beside the run."""
    program = ["-m", "octavo"]
    if fault:
        script = out.with_suffix(".py")
        script.write_text(FAULTY.format(fault=FAULTS[fault], when=WHEN))
        program = [str(script)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment: Mapping[str, str] = os.environ | {"OCTAVO_CACHE": str(octavo.cache), "OMP_NUM_THREADS": "1"}
    with out.with_suffix(".err").open("a") as file:
        return subprocess.Popen(
            [*command, *options, *program, *words_for(out, *more)],
            cwd=octavo.folder,
            env=environment,
            stdout=file,
            stderr=file,
            text=True,
        )


def ended(process: subprocess.Popen[str], out: Path) -> tuple[int, str]:
    """The exit code and what was said."""
    try:
        code = process.wait(timeout=240)
    finally:
        process.kill()
    return code, out.with_suffix(".err").read_text()


def by_torchrun(octavo: Octavo, out: Path, *more: str, **options: Any) -> tuple[int, str]:
    return ended(torchrun(octavo, out, *more, **options), out)


def together(
    octavo: Octavo, out: Path, *more: str, size: int = 2, fault: str = "", when: str = WHEN
) -> tuple[int, str]:
    """A training by so many processes that start at once, as by another launcher than torchrun: an exit code that is
    not 0 where one has it, and what was said."""
    words, program = words_for(out, *more), ""
    if fault:
        program = f"import sys; sys.argv[1:] = {words}\n" + FAULTY.format(fault=FAULTS[fault], when=when)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    begun = [
        octavo.start(
            *words, program=program, environment={**world, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(size)
    ]
    done = [each.wait() for each in begun]
    return next((each.code for each in done if each.code), 0), "".join(each.err for each in done)


def same_losses(out: Path, wanted: Path) -> None:
    rows = [RunFolder(folder).rows() for folder in (out, wanted)]
    assert [(row["event"], row["step"]) for row in rows[0]] == [
        (row["event"], row["step"]) for row in rows[1]
    ]
    assert [row["loss"] for row in rows[0]] == pytest.approx([row["loss"] for row in rows[1]], abs=1e-6)


@pytest.fixture(scope="module")
def alone(octavo: Octavo) -> Path:
    """The run that one process trains without a stop."""
    out = octavo.folder / "alone"
    done = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS)
    assert done.code == 0, done.err
    return out


def resumed_alone(octavo: Octavo, out: Path) -> str:
    done = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS, "--resume")
    assert done.code == 0, done.err
    return done.err


@pytest.mark.slow
def test_a_rank_that_dies_is_named_and_one_process_goes_on(
    octavo: Octavo, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    code, said = by_torchrun(octavo, out, "parallel=fsdp", fault="dies")
    assert code != 0
    assert "local_rank: 1" in said or "Rank 1 on " in said, said
    assert "parallel=fsdp: 2 processes on 1 machine, 4 of a batch's 8 sequences each" in said
    saved = list_checkpoints(out / "checkpoints")
    assert saved[-1].step == 20
    for checkpoint in saved:
        checkpoint.verify()
    sample = Path("samples", "step-000020.txt")
    assert (out / sample).read_text() == (alone / sample).read_text()
    assert "number of processes: 2 when the run began, 1 now" in resumed_alone(octavo, out)
    same_losses(out, alone)


def test_one_process_for_each_run_or_a_parallel_one(octavo: Octavo, tmp_path: Path) -> None:
    code, said = by_torchrun(octavo, tmp_path / "run")
    assert code != 0
    assert said.count("error: 2 processes were started") == 1 and "parallel=ddp" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stops", "sleeps"])
def test_a_rank_that_hangs_is_named_and_the_others_go_on_in_another_way(
    octavo: Octavo, alone: Path, tmp_path: Path, fault: str
) -> None:
    out = tmp_path / "run"
    timeout = f"parallel.timeout={TIMEOUT}"
    code, said = by_torchrun(octavo, out, "parallel=ddp", timeout, fault=fault)
    assert code != 0
    assert said.count("error: Rank 1 on ") == 1, said
    assert ("no sign of life" if fault == "stops" else "has not moved") in said
    assert "error: Rank 0" not in said
    code, said = together(octavo, out, "--resume", "parallel=fsdp")  # fsdp takes over from ddp
    assert code == 0, said
    assert "resuming after step 20" in said
    same_losses(out, alone)


@pytest.mark.slow
def test_a_run_that_diverges_says_so_once_and_has_its_report(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    hopeless = ("training.optimizer.learning_rate=1e39", "training.clip=~")
    code, said = by_torchrun(octavo, out, "parallel=fsdp", *hopeless)
    assert code != 0
    assert len(re.findall(r"error: Step \d+ diverged", said)) == 1, said
    assert (out / "report" / "index.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("started", "fault", "words"),
    [
        (by_torchrun, "raises", "KeyError: 'no room'"),
        (together, "no_memory", "error: This needs more memory than there is."),
    ],
)
def test_an_error_in_one_rank_is_told_by_the_others(
    octavo: Octavo, tmp_path: Path, started: Callable[..., tuple[int, str]], fault: str, words: str
) -> None:
    code, said = started(octavo, tmp_path / "run", "parallel=ddp", fault=fault)
    assert code != 0
    assert words in said, said


@pytest.mark.slow
def test_the_first_process_says_when_a_checkpoint_is_overdue(octavo: Octavo, tmp_path: Path) -> None:
    out = tmp_path / "run"
    when = 'info.step == {"0": 23, "1": 12}[os.environ["RANK"]]'
    keep = ("parallel=ddp", "training.keep=100", "training.checkpoint_every=20", "evaluation.every=20")
    code, said = together(octavo, out, *keep, fault="waited", when=when)
    assert code == 0, said
    assert [checkpoint.step for checkpoint in list_checkpoints(out / "checkpoints")] == [20, 23, 40]


@pytest.mark.slow
def test_torchrun_starts_a_run_again_that_lost_a_rank(octavo: Octavo, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, said = by_torchrun(octavo, out, "parallel=ddp", fault="dies", options=("--max-restarts", "1"))
    assert code == 0, said
    assert "restart 1 by torchrun: the run resumes" in said and "resuming after step 20" in said
    same_losses(out, alone)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_signal_stops_all_after_the_same_step(
    octavo: Octavo, alone: Path, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "run"
    process = torchrun(octavo, out, f"parallel={kind}", "training.checkpoint_every=1000", "training.steps=40")
    deadline = time.monotonic() + 120
    while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    code, said = ended(process, out)
    assert said.count("Stopped by SIGTERM after step") == 1, said
    assert code != 0
    step = list_checkpoints(out / "checkpoints")[-1].step
    assert f"after step {step} of 40" in said
    assert RunFolder(out).rows()[-1]["step"] == step
    code, said = together(octavo, out, "--resume", "parallel=ddp", size=4)
    assert code == 0, said
    same_losses(out, alone)


@pytest.mark.slow
def test_two_processes_go_on_with_what_one_began(octavo: Octavo, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = octavo.start(
        "train", "recipe.yaml", "--text", "text.txt", "--out", out, *SETTINGS, patch="slow_steps"
    )
    deadline = time.monotonic() + 120
    while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    command.signal(signal.SIGTERM)
    stopped = command.wait()
    assert stopped.code == 130, stopped.err
    code, said = together(octavo, out, "--resume", "parallel=fsdp")
    assert code == 0, said
    same_losses(out, alone)


@pytest.mark.slow
def test_two_processes_learn_from_teachers_as_one_does(octavo: Octavo, alone: Path, tmp_path: Path) -> None:
    taught = (f"training.teachers.runs=[{alone}]", "training.teachers.written=20000")
    one = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", tmp_path / "one", *SETTINGS, *taught)
    assert one.code == 0, one.err
    assert "the teachers wrote" in one.err
    code, said = together(octavo, tmp_path / "two", "parallel=ddp", *taught)
    assert code == 0, said
    assert said.count("the teachers wrote") == 1
    same_losses(tmp_path / "two", tmp_path / "one")
    written = [(tmp_path / name / "written.safetensors").read_bytes() for name in ("one", "two")]
    assert written[0] == written[1]
