"""What the wheel ships of the page is what `web/` makes, from packages of the usual registry."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from guards.common import PACKAGE, ROOT

WEB = ROOT / "web"
ASSETS = {"explain": PACKAGE / "explain" / "assets", "open": PACKAGE / "browser" / "assets"}


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.parametrize("page", ASSETS)
def test_what_is_shipped_is_what_is_built(tmp_path: Path, page: str) -> None:
    if shutil.which("npm") is None or not (WEB / "node_modules").is_dir():
        pytest.skip("there is no npm, or its packages are not installed: npm install in web/")
    subprocess.run(["npm", "run", "check"], cwd=WEB, check=True, capture_output=True)
    for name in ("first", "second"):
        command = ["npx", "vite", "build", "--mode", page, "--outDir", str(tmp_path / name)]
        subprocess.run(command, cwd=WEB, check=True, capture_output=True)
    assert hashes(tmp_path / "first") == hashes(tmp_path / "second") == hashes(ASSETS[page])


@pytest.mark.slow
def test_the_kernel_is_what_its_source_compiles_to() -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: pip install ziglang")
    subprocess.run([sys.executable, WEB / "kernel" / "build.py", "--check"], check=True)


def test_packages_come_from_the_usual_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages and all("integrity" in entry for entry in packages.values())
    from_elsewhere = [entry.get("resolved", "") for entry in packages.values()]
    assert not [url for url in from_elsewhere if url and not url.startswith("https://registry.npmjs.org/")]


def test_versions_are_exact() -> None:
    listed = json.loads((WEB / "package.json").read_text(encoding="utf-8"))
    versions = {**listed["dependencies"], **listed["devDependencies"]}
    assert versions and not [each for each in versions.values() if not re.fullmatch(r"[0-9.]+", each)]
