"""The runs of a study on several machines, through Ray Core: each run is a task, Ray is the scheduler.

No shared disk is needed: a task brings its text along and sends its run folder back. What every machine needs is this
version of Octavo. A task that loses its machine starts again on another.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import socket
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import octavo
from octavo.config.parts import loaded_parts
from octavo.errors import InputError, Interrupted, MissingExtra
from octavo.run.data import text_elsewhere
from octavo.studies.job import OUTCOME, Job, failed, perform, write_outcome
from octavo.studies.runner import TRIES, Bench, Done, environment
from octavo.studies.stored import Outcome
from octavo.util.files import folder_aside, publish_folder, put_away
from octavo.util.processes import stop_requests
from octavo.util.terminal import Console

Files = dict[str, bytes]
CONNECT_SECONDS = 10.0


class Cluster:
    """The way to perform all runs of a study on a Ray cluster."""

    def __init__(self, address: str, *, threads: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("ray", "cluster", "--cluster") from error
        self.ray, self.address, self.threads = ray, address, threads

    def perform(self, jobs: Sequence[Job], console: Console, on_done: Done) -> None:
        """Perform all jobs; see `Pool.perform`. When stopped, runs under way start again the next time."""
        ray = self.ray
        self.connect()
        bench = Bench(jobs, console, on_done)
        texts: dict[str, Any] = {}
        running: dict[Any, Job] = {}
        with stop_requests() as stop, console.working("runs", bench.all_steps):
            while not bench.finished and not stop:
                while (job := bench.next()) is not None:
                    running[self.submit(job, texts)] = job
                ended, _ = ray.wait(list(running), timeout=0.5)
                for task in ended:
                    job = running.pop(task)
                    bench.ended(job, self.fetched(job, task))
                bench.show([])
            for task in running:
                ray.cancel(task, force=True)
        if stop and not bench.finished:
            raise Interrupted(
                f"Stopped by {stop.name} with {bench.done} of {bench.total} runs done.",
                remedy="the same command continues",
            )

    def connect(self) -> None:
        """Join the cluster. Raises InputError if there is none."""
        refuse_nobody(self.address)
        if own := loaded_parts():
            raise InputError(
                f"{own[0].path} is not sent to the machines of a cluster.",
                remedy="install your parts there as a package that registers them, or leave --cluster out",
            )
        settings = {
            "env_vars": {name: str(self.threads) for name in environment(self.threads) if "THREADS" in name}
        }
        try:
            self.ray.init(
                address=self.address,
                ignore_reinit_error=True,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env=settings,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise nobody(self.address, str(error).splitlines()[0]) from error

    def submit(self, job: Job, texts: dict[str, Any]) -> Any:
        """Send a run to the cluster; its texts are sent once."""
        for path in texts_of(job):
            if path not in texts:
                texts[path] = self.ray.put(read_files(Path(path)))
        accelerator = str(job.recipe["training"]["device"]).startswith("cuda")
        task = self.ray.remote(performed_there).options(
            num_cpus=self.threads, num_gpus=int(accelerator), max_retries=TRIES - 1
        )
        wanted = texts_of(job)
        rival = Path(job.rival, "metrics.jsonl") if job.rival else None
        curve = rival.read_bytes() if rival and rival.is_file() else None
        sent = dataclasses.asdict(job), octavo.__version__, curve, wanted
        return task.remote(*sent, *[texts[path] for path in wanted])

    def fetched(self, job: Job, task: Any) -> Outcome:
        """Bring a run's folder home."""
        try:
            outcome, archive = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            reason = f"The cluster lost this run {TRIES} times: {type(error).__name__}."
            return write_outcome(job, failed(job, reason))
        unpack(archive, Path(job.folder))
        return outcome


def refuse_nobody(address: str) -> None:
    """Raise InputError if nothing answers. Ray itself would try for minutes."""
    host, colon, port = address.rpartition("//")[2].rpartition(":")
    if not colon:
        return  # a word of Ray's own, such as auto
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise nobody(address, str(error)) from error


def nobody(address: str, why: str) -> InputError:
    """The error for a cluster that is not there."""
    return InputError(
        f"There is no Ray cluster at {address}: {why}.",
        remedy="ray start --head    on one machine starts one, and says the address",
    )


def performed_there(
    job: Mapping[str, Any], version: str, curve: bytes | None, paths: list[str], *files: Files
) -> tuple[Outcome, bytes]:
    """Perform a run on a machine of the cluster; returns its outcome and its folder as an archive.

    `curve` is the metrics.jsonl of the run that it is compared with, `files` what stands at each of the `paths`.
    """
    with tempfile.TemporaryDirectory(prefix="octavo-") as name:
        scratch = Path(name)
        wanted = dataclasses.replace(Job(**job), folder=str(scratch / "run"), rival=None)
        if curve is not None:
            (scratch / "rival").mkdir()
            (scratch / "rival" / "metrics.jsonl").write_bytes(curve)
            wanted = dataclasses.replace(wanted, rival=str(scratch / "rival"))
        if version != octavo.__version__:
            reason = f"The cluster has octavo {octavo.__version__} where this is {version}."
            outcome = write_outcome(wanted, failed(wanted, reason))
            return outcome, pack(Path(wanted.folder))
        places = {}
        for number, (path, content) in enumerate(zip(paths, files, strict=True)):
            places[path] = str(write_files(content, scratch / f"text-{number}" / Path(path).name))
        with text_elsewhere(places):
            outcome = perform(wanted, lambda step: None)
        return outcome, pack(Path(wanted.folder))


def texts_of(job: Job) -> list[str]:
    """The files and folders that a run reads."""
    return [path for path in job.recipe["corpus"].get("paths", []) if Path(path).exists()]


def read_files(path: Path) -> Files:
    """A file, or all files of a folder, by their names relative to it; `.` is the path itself."""
    if path.is_file():
        return {".": path.read_bytes()}
    return {
        each.relative_to(path).as_posix(): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file()
    }


def write_files(files: Files, path: Path) -> Path:
    """The inverse of `read_files`; returns the path."""
    for name, content in files.items():
        target = path if name == "." else path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return path


def pack(folder: Path) -> bytes:
    """A folder as an archive in memory."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if not path.name.startswith("."):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return content.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Put an archived run folder in its place, whole or not at all. What was there is put aside.

    Raises InputError for an archive that would write anywhere else.
    """
    with folder_aside(folder) as aside:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive.getmembers():
                _unpack(archive, member, aside)
        assert (aside / OUTCOME).is_file(), "a run comes back with its outcome"
        if folder.exists():
            put_away(folder, "earlier")
        publish_folder(aside, folder)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, aside: Path) -> None:
    target = aside / member.name
    leads = target.parent / member.linkname if member.issym() else target
    if not Path(os.path.normpath(leads)).is_relative_to(aside):
        raise InputError(f"The archive holds {member.name}, which leads out of it.")
    (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname, target_is_directory=True)
    elif (stream := archive.extractfile(member)) is not None:
        target.write_bytes(stream.read())
