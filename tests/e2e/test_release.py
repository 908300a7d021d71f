"""`make release` refuses what is not ready, in a sentence: of a small project, with a builder that is played."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_RELEASE = ("packaging/kernels.py", "packaging/packages.py", "packaging/release.py")
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n\n- New.\n\n## [1.1.0]\n\n- Old.\n"
FILES = {
    "CHANGELOG.md": CHANGELOG,
    "CITATION.cff": "version: 1.2.0\n",
    "src/octavo/__init__.py": '__version__ = "1.2.0"\n',
}
BUILDER = """
import os, sys, zipfile
from pathlib import Path
import kernels, packages

words = sys.argv
out = Path(words[words.index("-d") + 1])
out.mkdir(parents=True, exist_ok=True)
if words[words.index("-t") + 1] == "sdist":
    content = os.environ["OCTAVO_SITE"].encode() if "SEED" not in os.environ else os.urandom(8)
    (out / "octavo-1.2.0.tar.gz").write_bytes(content)
else:
    platform = os.environ["OCTAVO_PLATFORM"]
    own, info = kernels.PLATFORMS[platform], "octavo-1.2.0.dist-info"
    names = {*packages.NEEDED, *(f"octavo/_kernels/{level.name}.{own.ending}" for level in own.levels)}
    names |= {f"{info}/licenses/LICENSE", f"{info}/licenses/THIRD_PARTY.md", f"{info}/sboms/octavo.cdx.json"}
    names ^= set(filter(None, os.environ.get("CHANGED", "").split()))
    with zipfile.ZipFile(out / f"octavo-1.2.0-py3-none-{platform}.whl", "w") as wheel:
        for name in sorted(names):
            size = 7_000_000 if os.environ.get("HEAVY") == platform else 0
            wheel.writestr(zipfile.ZipInfo(name), b"0" * size)
"""
PLAYED = {
    "hatchling": BUILDER,
    "sphinx": "import os; print(words := os.environ.get('WARNS', '')); exit(bool(words))",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with one commit."""
    home = tmp_path / "project"
    for name, text in FILES.items():
        write(home / name, text)
    for name in OF_RELEASE:
        write(home / name, (ROOT / name).read_text("utf-8"))
    for name, text in PLAYED.items():
        write(tmp_path / "played" / name / "__main__.py", text)
        write(tmp_path / "played" / name / "__init__.py", "")
    git(home, "init", "--quiet")
    commit(home)
    return home


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def git(project: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=project, check=True, stdout=subprocess.DEVNULL)


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "one", "--allow-empty")


def release(project: Path, **variables: str) -> str:
    """What it complains of."""
    paths = os.pathsep.join((str(project.parent / "played"), str(project / "packaging")))
    done = subprocess.run(
        [sys.executable, project / "packaging" / "release.py", "--out", project.parent / "out"],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1 and "Nothing is published" not in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("CITATION.cff", "version: 1.1.0\n", "CITATION.cff says 1.1.0, src/octavo/__init__.py 1.2.0."),
        ("CITATION.cff", "title: none\n", "CITATION.cff names no version."),
        ("src/octavo/__init__.py", '__version__ = "1.3.0"\n', "The newest version in CHANGELOG.md is 1.2.0"),
        ("CHANGELOG.md", "# Changelog\n", "The newest version in CHANGELOG.md is none"),
        ("CHANGELOG.md", CHANGELOG.replace("d]\n", "d]\n\n- More.\n", 1), "has entries under Unreleased"),
    ],
)
def test_versions_that_disagree(project: Path, file: str, text: str, sentence: str) -> None:
    write(project / file, text)
    commit(project)
    assert sentence in release(project)


@pytest.mark.parametrize("file", ["CITATION.cff", "new.txt"])
def test_files_that_are_in_no_commit(project: Path, file: str) -> None:
    write(project / file, "version: 1.2.0\n\n")
    said = release(project)
    assert "These files are in no commit" in said and file in said


@pytest.mark.parametrize("annotated", [False, True])
def test_a_tag_of_another_commit(project: Path, annotated: bool) -> None:
    git(project, "tag", "v1.2.0", *(("--annotate", "--message", "1.2.0") if annotated else ()))
    assert "The tag" not in release(project, WARNS="dead link")
    commit(project)
    assert "The tag v1.2.0 names another commit than the one that is checked out." in release(project)


def test_documentation_with_a_warning(project: Path) -> None:
    assert "dead link" in release(project, WARNS="dead link")


def test_packages_that_are_other_bytes_when_built_again(project: Path) -> None:
    said = release(project, SEED="new")
    assert "These packages are other bytes when they are built again: octavo-1.2.0.tar.gz" in said


def test_packages_that_are_not_whole(project: Path) -> None:
    lacking = "octavo-1.2.0.dist-info/sboms/octavo.cdx.json octavo/py.typed octavo/_kernels/strange.so"
    said = release(project, CHANGED=lacking, HEAVY="win_arm64")
    wheel = "octavo-1.2.0-py3-none-win_arm64.whl"
    for complaint in (
        f"{wheel} lacks octavo-1.2.0.dist-info/sboms/octavo.cdx.json",
        f"{wheel} lacks octavo/py.typed",
        f"{wheel} has octavo/_kernels/strange.so",
    ):
        assert complaint in said
    sizes = [line for line in said.splitlines() if line.endswith("bytes")]
    assert len(sizes) == 1 and sizes[0].startswith(f"{wheel} has ")
