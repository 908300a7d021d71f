"""Runs on a cluster: what is sent and what comes back, and results that are the local ones."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import asdict
from pathlib import Path

import pytest

from octavo.errors import InputError
from octavo.studies.cluster import pack, performed_there, read_files, texts_of, unpack, write_files
from octavo.studies.job import Job, outcome_of
from octavo.studies.plan import jobs_of, plan_study
from octavo.studies.resolve import load_study
from octavo.studies.results import RESULTS
from octavo.studies.run import run_study
from octavo.util.terminal import Console
from unit.studies.conftest import study_tree


def test_files_and_folders_travel(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_bytes(b"\xffa")
    (tmp_path / "in" / "deep" / "b.txt").write_text("b")
    assert read_files(write_files(read_files(tmp_path / "in"), tmp_path / "out")) == read_files(
        tmp_path / "in"
    )
    copy = write_files(read_files(tmp_path / "in" / "a.txt"), tmp_path / "other" / "a.txt")
    assert copy.read_bytes() == b"\xffa"


def test_a_run_folder_comes_back_whole(tmp_path: Path) -> None:
    source, home = tmp_path / "there", tmp_path / "home"
    (source / "checkpoints" / "step-1").mkdir(parents=True)
    (source / "outcome.json").write_text("{}")
    (source / "checkpoints" / "step-1" / "w").write_bytes(b"123")
    (source / "last").symlink_to("checkpoints/step-1")
    (source / ".lock").touch()
    home.mkdir()
    (home / "old").touch()
    unpack(pack(source), home)
    assert sorted(path.name for path in home.iterdir()) == ["checkpoints", "last", "outcome.json"]
    assert (home / "last" / "w").read_bytes() == b"123"


@pytest.mark.parametrize(
    ("name", "link"), [("../x", None), ("a/../../x", None), ("/x", None), ("a", "../../x"), ("a", "/x")]
)
def test_an_archive_that_leads_elsewhere_is_refused(tmp_path: Path, name: str, link: str | None) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        member = tarfile.TarInfo(name)
        if link:
            member.type, member.linkname = tarfile.SYMTYPE, link
        archive.addfile(member, None if link else io.BytesIO())
    with pytest.raises(InputError, match="leads out of it"):
        unpack(content.getvalue(), tmp_path / "runs" / "run")
    assert not (tmp_path / "x").exists() and not (tmp_path / "runs" / "x").exists()


def first_job(text: Path, out: Path) -> Job:
    study, _ = plan_study(load_study(study_tree(), text), Console(quiet=True))
    return jobs_of(study, out)[0]


def test_a_task_reads_its_own_copy_of_the_text(text: Path, tmp_path: Path) -> None:
    """The path that the recipe names does not exist there, and stands in the run's config all the same."""
    (tmp_path / "mine.txt").write_bytes(text.read_bytes())
    job = first_job(tmp_path / "mine.txt", tmp_path)
    paths = texts_of(job)
    files = [read_files(Path(path)) for path in paths]
    (tmp_path / "mine.txt").unlink()
    from octavo import __version__

    outcome, archive = performed_there(asdict(job), __version__, None, paths, *files)
    assert outcome.status == "done", outcome
    unpack(archive, Path(job.folder))
    assert str(tmp_path / "mine.txt") in (Path(job.folder) / "config.yaml").read_text()
    assert outcome_of(Path(job.folder)) == outcome


def test_another_version_there_is_a_row_that_says_so(text: Path, tmp_path: Path) -> None:
    job = first_job(text, tmp_path)
    outcome, _ = performed_there(asdict(job), "99", None, [])
    assert outcome.status == "failed" and "where this is 99" in outcome.reason


def test_no_cluster_at_the_address(text: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="There is no Ray cluster"):
        run_study(study_tree(), text, tmp_path / "out", cluster="127.0.0.1:1", console=Console(quiet=True))


@pytest.mark.slow
def test_two_machines_give_the_local_results(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    home = str(Path(__file__).parents[3] / "src")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")])))
    from ray.cluster_utils import Cluster

    tree = study_tree(stop_hopeless={"after": 0.5, "worse_by": 5.0})
    run_study(tree, text, tmp_path / "local", console=Console(quiet=True))
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        machines.add_node(num_cpus=1)
        run_study(tree, text, tmp_path / "far", cluster=machines.address, console=Console(quiet=True))
    finally:
        ray.shutdown()
        machines.shutdown()
    local, far = ((tmp_path / name / RESULTS).read_bytes() for name in ("local", "far"))
    assert local == far
    assert all(row["status"] == "done" for row in json.loads(far)["runs"])
