"""The tests with the lowest versions of all dependencies that pyproject.toml states, in an environment of their own.

    python benchmarks/lowest_versions.py FOLDER --out lowest.jsonl [--tests tests/unit …] [--python 3.11] [--table PAGE]

Needs `uv` (from the index). The environment stays in FOLDER, and each outcome is kept as it comes: a run that was
stopped goes on where it was, and what has not passed is tried again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from common import finish, in_markdown, keep_row, print_table, rows_in
from kernel_variants import counted, outcomes, tests, without

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"llama-cpp-python"}
"""Is compiled on the spot."""
TOOLS = ("pytest", "hypothesis", "openai")
"""What the tests themselves need, as new as it fits."""
PLACES = ["tests/contract", "tests/golden", "tests/parity", "tests/unit", "tests/e2e"]


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


def page(python: str, lowest: dict[str, str], said: str, odd: list[dict[str, str]]) -> str:
    """The result for a reader."""
    versions = ", ".join(f"{name} {version}" for name, version in lowest.items())
    left = f"\nNot passed:\n\n{in_markdown(odd)}" if odd else ""
    return f"""# The lowest versions

`python benchmarks/lowest_versions.py`, {time.strftime("%d %B %Y")}, Python {python}: {said}
that are not marked slow.

{versions}.
{left}"""


def main() -> None:
    """Install, test, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tests", nargs="+", default=PLACES)
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    parser.add_argument("--limit", type=float, default=900, help="seconds that a test has")
    parser.add_argument("--table", type=Path, help="write the page of what is there")
    parser.add_argument("--uv", default=shutil.which("uv"))
    options = parser.parse_args()
    if options.uv is None:
        raise SystemExit("There is no uv here: pip install uv")
    lowest, rows = stated(), rows_in(options.out)
    interpreter = str(install(options.uv, options.python, options.folder.absolute(), lowest))
    names = tests(interpreter, options.tests)
    for row in outcomes(interpreter, without(names, rows), options.limit):
        keep_row(row, rows, options.out)
    last = {row["test"]: row["outcome"] for row in rows}
    odd = [{"test": f"`{name}`", "outcome": last[name]} for name in without(names, rows)]
    said = f"{counted(names, rows)}, of {len(names):,} tests"
    print_table(odd or [{"package": name, "lowest": version} for name, version in lowest.items()])
    print(f"Python {options.python}: {said}")
    if options.table:
        options.table.write_text(page(options.python, lowest, said, odd), encoding="utf-8")
    finish({"python": options.python, "versions": lowest, "tests": said, "other": odd})


if __name__ == "__main__":
    main()
