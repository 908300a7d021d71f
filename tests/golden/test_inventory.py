"""What users have is still there: verbs, options, recipes, studies, parts, the Python API, a run folder's files.

`inventory.json` lists it as of commit 56042fb. What is added needs no entry. What is removed or renamed needs one in
`GONE`, with the reason. `python tests/golden/test_inventory.py` (with `src` and `tests` on PYTHONPATH) prints the
inventory of the code as it is; written over the file, it is the new list, and `GONE` is emptied.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cyclopts import App
from pydantic import BaseModel

import octavo
from octavo.cli.app import app
from octavo.config import Recipe, cleaning_names, recipe_names
from octavo.config.parts import ROOMS, parts
from octavo.corpus.fetch.catalogue import catalogue
from octavo.generation.sampling import SamplingFields
from octavo.studies.spec import study_names

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = Path(__file__).with_name("inventory.json")

GONE: dict[str, str] = {
    **{
        f"python: Run.{method}(sampling)": "its keywords are named one by one"
        for method in ("generate", "samples", "stream", "write_each")
    },
    "pages: docs/bring-gpt2.md": "docs/guide/ship.md",
    "pages: docs/cleaning.md": "docs/guide/text.md",
    "pages: docs/counts.md": "docs/design/counting.md",
    "pages: docs/design.md": "docs/design/architecture.md",
    "pages: docs/forecast.md": "docs/guide/tasks.md",
    "pages: docs/generation.md": "docs/guide/generate.md",
    "pages: docs/glossary.md": "docs/design/architecture.md",
    "pages: docs/how-to.md": "docs/guide/train.md",
    "pages: docs/many-machines.md": "docs/guide/train.md",
    "pages: docs/minutes.md": "docs/design/forecasting-a-run.md",
    "pages: docs/planning.md": "docs/design/planning.md",
    "pages: docs/python.md": "docs/guide/python.md",
    "pages: docs/reading-a-report.md": "docs/guide/evaluate.md",
    "pages: docs/reading.md": "docs/guide/text.md",
    "pages: docs/ship.md": "docs/guide/ship.md",
    "pages: docs/speed.md": "docs/design/speed.md",
    "pages: docs/studies.md": "docs/guide/studies.md",
    "pages: docs/symbols.md": "docs/guide/tasks.md",
    "pages: docs/tensors-only.md": "docs/reports.md",
    "pages: docs/tokenizers.md": "docs/guide/text.md",
    "pages: docs/translate.md": "docs/guide/tasks.md",
    "pages: docs/tune.md": "docs/guide/tune.md",
    "pages: docs/writing-a-corpus.md": "docs/guide/llm-corpora.md",
    "pages: docs/pictures/symbols-digits.png": "one picture of records is enough",
}
"""`group: entry`, and why it is gone or what its name is now."""

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
STEPS = ("training.steps=4", "evaluation.every=2", "training.checkpoint_every=2", "sampling.every=2")


def verbs(of: App, name: str = "") -> Iterator[tuple[str, App]]:
    """Every verb with its words; those that only hold others, too."""
    for word in of:
        if not word.startswith("-"):
            yield f"{name} {word}".strip(), of[word]
            yield from verbs(of[word], f"{name} {word}".strip())


def options(of: App, verb: str) -> Iterator[str]:
    """As `train --text`, short forms and negative ones as well; none of a verb that only holds others."""
    if of.default_command is not None:
        for argument in of.assemble_argument_collection():
            yield from (f"{verb} {name}".strip() for name in argument.names if name != "*" and argument.show)


def settings(config: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The keys of a recipe, without those of the parts in it."""
    for name, field in config.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, f"{prefix}{name}.")


def arguments(of: Any, name: str) -> Iterator[str]:
    """As `train(text)`, and the name alone."""
    yield name
    if callable(of) and not inspect.isclass(of):
        yield from (f"{name}({each})" for each in argument_names(of) if each != "self")


def argument_names(of: Callable[..., Any]) -> Iterator[str]:
    """Names of arguments; of `**options: Unpack[SamplingFields]` those of the fields."""
    for name, one in inspect.signature(of).parameters.items():
        yield from SamplingFields.__annotations__ if one.annotation == "Unpack[SamplingFields]" else [name]


def run_folder(folder: Path) -> dict[str, list[str]]:
    """A small run's files, the keys in them, and its page's sections, without steps in names."""
    out = folder / "run"
    octavo.train(
        Path(__file__).parent / "f2d6df2/plain/config.yaml",
        Path(__file__).parent / "f2d6df2/text.txt",
        out,
        overrides=STEPS,
        quiet=True,
    )
    step = re.compile(r"step-\d+")
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    page = (out / "report/index.html").read_text("utf-8")
    checkpoint = next((out / "checkpoints").iterdir())
    keys = {
        name: json.loads((out / name).read_text("utf-8")) for name in ("manifest.json", "evaluation.json")
    }
    keys["state.json"] = json.loads((checkpoint / "state.json").read_text("utf-8"))
    return {
        "run folder": [step.sub("step-N", path.relative_to(out).as_posix()) for path in out.rglob("*")],
        "keys": [f"{name} {key}" for name, content in keys.items() for key in content]
        + [f"metrics.jsonl {row['event']} {key}" for row in rows for key in row],
        "report": re.findall(r"<h2>(.*?)</h2>", page),
    }


def inventory() -> dict[str, list[str]]:
    """Everything, by group."""
    every = [*verbs(app), ("", app.meta)]
    pages = [path for name in PAGES for path in [ROOT / name, *(ROOT / name).rglob("*.*")] if path.is_file()]
    with tempfile.TemporaryDirectory() as folder:
        earlier = os.environ.get("OCTAVO_CACHE")
        os.environ["OCTAVO_CACHE"] = folder
        try:
            run = run_folder(Path(folder))
        finally:
            if earlier is None:
                del os.environ["OCTAVO_CACHE"]
            else:
                os.environ["OCTAVO_CACHE"] = earlier
    found = {
        "verbs": [verb for verb, _ in every if verb],
        "options": [option for verb, of in every for option in options(of, verb)],
        "recipes": list(recipe_names()),
        "cleaning lists": list(cleaning_names()),
        "studies": list(study_names()),
        "corpora": list(catalogue()),
        "settings": list(settings(Recipe)),
        "parts": [
            entry
            for room in ROOMS
            for kind, config in parts(room).items()
            for entry in (f"{room} {kind}", *(f"{room} {kind}.{name}" for name in config.model_fields))
            if not entry.endswith(".kind")
        ],
        "python": [
            *(entry for name in octavo.__all__ for entry in arguments(getattr(octavo, name), name)),
            *(
                entry
                for name, of in inspect.getmembers(octavo.Run)
                if not name.startswith("_")
                for entry in arguments(of, f"Run.{name}")
            ),
        ],
        "pages": [path.relative_to(ROOT).as_posix() for path in pages],
        **run,
    }
    return {group: sorted(set(entries)) for group, entries in found.items()}


@cache
def stored() -> dict[str, list[str]]:
    return json.loads(INVENTORY.read_text("utf-8"))


def test_nothing_is_lost() -> None:
    now = inventory()
    missing = {f"{group}: {entry}" for group in stored() for entry in {*stored()[group]} - {*now[group]}}
    assert not sorted(missing - GONE.keys()), "name each in GONE, with the reason"
    assert not sorted(GONE.keys() - missing), "these are no longer gone, or never were there"


if __name__ == "__main__":
    print(json.dumps(inventory(), indent=1, ensure_ascii=False), file=sys.stdout)
