"""What a wheel is made of, as a bill of materials in CycloneDX's form (.dist-info/sboms)."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def write(path: Path, platform: str) -> None:
    """Write the bill of a wheel for a platform, or for all where it brings no kernels."""
    path.write_text(json.dumps(bill(platform), indent=1) + "\n", encoding="utf-8", newline="\n")


def bill(platform: str) -> dict[str, Any]:
    """Octavo, what lies in the wheel that others wrote, and what is installed with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = re.search(
        r'^__version__ = "(.*)"', (ROOT / "src/octavo/__init__.py").read_text("utf-8"), re.MULTILINE
    )
    assert own is not None
    octavo = component("octavo", own[1], project["license"], f"pkg:pypi/octavo@{own[1]}", kind="application")
    inside = vendored() + (linked(platform) if platform else [])
    needed = [requirement(line) for line in project["dependencies"]]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": octavo},
        "components": inside + needed,
        "dependencies": [
            {"ref": octavo["bom-ref"], "dependsOn": [one["bom-ref"] for one in inside + needed]}
        ],
    }


def component(
    name: str, version: str | None, license: str | None, ref: str, *, kind: str = "library"
) -> dict[str, Any]:
    """One entry."""
    found: dict[str, Any] = {"type": kind, "bom-ref": ref, "name": name}
    found |= {"version": version} if version else {}
    found |= {"licenses": [{"expression": license}]} if license else {}
    return found | ({"purl": ref} if ref.startswith("pkg:") else {})


def requirement(line: str) -> dict[str, Any]:
    """A package that pip installs: which version, the user's machine decides."""
    name, least = re.split(r">=", line)
    found = component(name, None, None, f"pkg:pypi/{name.lower()}")
    return found | {"scope": "required", "description": f"version {least} or later"}


def vendored() -> list[dict[str, Any]]:
    """What is bundled into the pages."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))["packages"]
    found = []
    for path, facts in lock.items():
        if path and not facts.get("dev"):
            name = path.removeprefix("node_modules/")
            found.append(
                component(name, facts["version"], facts["license"], f"pkg:npm/{name}@{facts['version']}")
            )
    return found


def linked(platform: str) -> list[dict[str, Any]]:
    """What the compiler puts into the kernels of its own."""
    zig = version("ziglang")
    found = [component("compiler-rt of Zig", zig, "MIT", f"pkg:pypi/ziglang@{zig}")]
    if platform.startswith("win"):
        found.append(component("mingw-w64 runtime", None, "ZPL-2.1", "mingw-w64"))
    return found
