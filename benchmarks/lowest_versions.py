"""The tests with the lowest versions of all dependencies that pyproject.toml states, in an environment of their own.

    python benchmarks/lowest_versions.py FOLDER [--tests tests/unit …] [--python 3.11] [--workers 2] [--uv PATH]

Needs `uv` (from the index). The environment stays in FOLDER, so that a second run begins with the tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from common import finish, print_table

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"llama-cpp-python"}
"""Is compiled on the spot."""
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "openai")
"""What the tests themselves need, as new as it fits."""


def stated() -> dict[str, str]:
    """The lowest version of each dependency, and of each extra's but the developers'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"]]
    lines += [line for name, extra in extras.items() if name not in ("all", "dev") for line in extra]
    found = [re.fullmatch(r"([\w-]+)>=([\w.]+)", line) for line in lines]
    return {each[1]: each[2] for each in found if each and each[1] not in LEFT_OUT}


def install(uv: str, python: str, folder: Path, lowest: dict[str, str]) -> Path:
    """An environment that has these very versions, as wheels. Gives its interpreter."""
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not interpreter.is_file():
        subprocess.run([uv, "venv", "--quiet", "--python", python, folder], check=True)
    wanted = [f"{name}=={version}" for name, version in lowest.items()]
    pip = [uv, "pip", "install", "--quiet", "--python", interpreter]
    subprocess.run([*pip, "--only-binary", ":all:", *wanted, *TOOLS], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True)
    return interpreter


def main() -> None:
    """Install, test, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--tests", nargs="+", default=["tests/contract", "tests/e2e", "tests/golden", "tests/unit"]
    )
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--uv", default=shutil.which("uv"))
    options = parser.parse_args()
    if options.uv is None:
        raise SystemExit("There is no uv here: pip install uv")
    lowest = stated()
    interpreter = install(options.uv, options.python, options.folder.absolute(), lowest)
    pytest = [interpreter, "-m", "pytest", "-n", str(options.workers), "--dist", "loadfile", "--tb=short"]
    pytest += ["-p", "no:cacheprovider", *options.tests]
    told = subprocess.run(pytest, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=False).stdout
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
    counts = {
        what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", told)
    }
    if not counts:
        raise SystemExit(told)
    print(told[-20_000:] if failed else "")
    print_table([{"package": name, "lowest": version} for name, version in lowest.items()])
    print(f"Python {options.python}: {counts}, {' '.join(options.tests)}")
    finish({"python": options.python, "versions": lowest, "counts": counts, "failed": failed})


if __name__ == "__main__":
    main()
