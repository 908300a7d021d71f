"""The documentation as a site that works offline, from the Markdown as it stands: `make docs`.

Sphinx reads the whole checkout, so that links between pages, README and results are those of the repository.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "src/octavo/__init__.py").read_text(encoding="utf-8"))
assert VERSION is not None

project = "Octavo"
author = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["authors"][0]["name"]
copyright = author
release = version = VERSION[1]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "benchmarks/**.md"]
exclude_patterns = ["**/node_modules", ".venv"]
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]  # pictures that are given a width
suppress_warnings = ["misc.highlighting_failure"]  # outputs of commands that are written as if they were code

html_theme = "furo"
html_title = f"Octavo {release}"
html_copy_source = False
html_show_search_summary = False  # which would be fetched, and nothing is from the disk
html_show_sphinx = False

SIDEBAR = {
    "Begin": ["docs/tutorial", "docs/guide/text", "docs/guide/train", "docs/guide/generate"],
    "Judge": ["docs/guide/evaluate", "docs/guide/explain", "docs/guide/studies"],
    "Use": [
        "docs/guide/open",
        "docs/guide/serve",
        "docs/guide/ship",
        "docs/ship-recipes",
        "docs/guide/python",
    ],
    "Go further": ["docs/guide/tasks", "docs/guide/tune", "docs/guide/llm-corpora", "docs/extending"],
    "Design": ["docs/design/*"],
    "Look up": ["docs/reference", "docs/results", "docs/reports", "CHANGELOG"],
    "Work on it": ["CONTRIBUTING", "docs/releasing", "THIRD_PARTY"],
    "Benchmarks": ["benchmarks/README", "benchmarks/LOG", "benchmarks/results/*"],
}
"""Pages by caption: behind the README, whose own table of them is for GitHub."""


def with_sidebar(app: Any, name: str, source: list[str]) -> None:
    """Add the pages' tree to the page that the site begins with."""
    if name == root_doc:
        trees = (
            f"```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
            for caption, pages in SIDEBAR.items()
        )
        source[0] += "\n\n" + "\n".join(trees)


def with_index(app: Any, exception: Exception | None) -> None:
    """Lead whoever opens the folder to its first page."""
    if exception is None and app.builder.format == "html":
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>{project}</title>'
        Path(app.outdir, "index.html").write_text(
            f'{page}<a href="{root_doc}.html">{project}</a>\n', encoding="utf-8"
        )


def with_verdict(app: Any, exception: Exception | None) -> None:
    """Say of `make links` what leads nowhere; where no site at all answers, it is the network that is missing."""
    if exception is not None or app.builder.name != "linkcheck":
        return
    lines = Path(app.outdir, "output.json").read_text(encoding="utf-8").splitlines()
    links = [link for link in map(json.loads, lines) if urlsplit(link["uri"]).netloc]
    silent = [link for link in links if link["status"] == "timeout" or "Max retries exceeded" in link["info"]]
    if links and len(silent) == len(links):
        print(f"No site answers from here, so none of {len(links)} links to other sites was tried:")
        app.statuscode = 0
    dead = [link for link in links if link in silent or link["status"] == "broken"]
    for link in dead:
        why = "" if app.statuscode == 0 else f": {link['info'] or link['status']}"
        print(f"{link['filename']}:{link['lineno']}: {link['uri']}{why}")
    if not dead:
        print(f"All of {len(links)} links to other sites answer.")


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", with_sidebar)
    app.connect("build-finished", with_index)
    app.connect("build-finished", with_verdict)
