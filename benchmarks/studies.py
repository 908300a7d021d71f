"""The page of results from finished studies: what each asked, what came out, and what differs from the report.

    python benchmarks/studies.py STUDY_FOLDER … --out docs/results.md
    python benchmarks/studies.py --anew FOLDER --text PATH --play PATH --prose PATH --numbers PATH --out docs/results.md
    python benchmarks/studies.py --mark --out docs/results.md

The first writes studies that were run (`octavo study run NAME --text PATH --out FOLDER`) into the page; what the page
says of others stays, with the code that it is of. The second runs those first that were not run by today's code; the
same command resumes it. A study whose files are not named is passed over. The third only says in the page which
studies are of other code than today's.
"""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import suppress
from pathlib import Path

from claims import table
from common import finish, machine
from octavo.errors import ConfigError, MissingExtra
from octavo.studies.resolve import load_study
from octavo.studies.results import collect
from octavo.studies.run import run_study
from octavo.studies.shipped import study_names
from octavo.studies.sources import code_sha256, marked, stale
from octavo.studies.table import summary

HEAD = """\
# Results of the shipped studies

Every study below is shipped: `octavo study run NAME --text PATH --out FOLDER` repeats it. These are the small forms,
for a laptop: most are of models of some 0.8 million parameters after 600 steps. They say what holds at that size and
length; where one differs from the report that it follows, it says so, and the large form is there to be run.
[What a verdict means](studies.md) tells how noise, intervals and the correction for many comparisons are taken.

This page is written by `benchmarks/studies.py` from the studies' folders; below each stands what it was run on.

Texts: TinyShakespeare, unless said otherwise. *three-texts* has Robinson Crusoe as its other prose and Oscar Wilde's
play An Ideal Husband as its short script; *overfit-and-cure* and *short-script* have that play.

"""


CLAIMS_HEAD = """\
## What the reports claim

A study answers for the size and length that it names. “Not measured” is what has no result of today's studies yet.

"""


PLAYS = ("overfit-and-cure-cpu", "short-script-cpu")
SERIES = ("forecast-zero-cpu", "forces-heads-cpu")


def reads(name: str, given: argparse.Namespace) -> tuple[list[Path] | None, dict[str, list[str]]] | None:
    """The text of a study, and settings that name further ones; no text where it makes its own. None where its files
    are not named."""
    further = {}
    if name == "three-texts-cpu":
        others = {"other prose": given.prose, "a short script": given.play}
        further = {f"changes.{change}.text": [str(path)] for change, path in others.items() if path}
    if name in PLAYS:
        files = [given.play] if given.play else None
    elif name in SERIES:
        files = [given.numbers] if given.numbers else None
    else:
        with suppress(ConfigError):
            load_study(name)
            return None, further
        files = given.text
    return None if files is None else (files, further)


def anew(given: argparse.Namespace) -> list[Path]:
    """The small studies as run by today's code, each in a folder that says by which; what is there already is kept."""
    there = given.anew / code_sha256()[:12]
    for name in study_names():
        if not name.endswith("-cpu"):
            continue
        if (found := reads(name, given)) is None:
            print(f"passed over, for its files are not named: {name}", file=sys.stderr)
            continue
        text, further = found
        try:
            run_study(name, text, there / name, overrides=further)
        except MissingExtra as error:
            print(f"passed over: {name}. {error.what}", file=sys.stderr)
    return sorted(there.iterdir())


def sections(page: str) -> dict[str, str]:
    """What stands below each heading of a page, heading and all, by name."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].removeprefix("## "): part.rstrip() for part in parts}


def written(folders: list[Path], before: str) -> str:
    """The page with the studies of some folders in it, and those of the page before that are not among them."""
    found, kept = [collect(folder) for folder in folders], sections(before)
    claims = CLAIMS_HEAD + table(
        found, earlier=kept.get(CLAIMS_HEAD.partition("\n")[0].removeprefix("## "), "")
    )
    studies = {name: text for name, text in kept.items() if name in study_names()} | sections(
        summary(folders)
    )
    parts = [HEAD + claims, *(studies[name] for name in sorted(studies))]
    return marked("\n\n".join(parts) + "\n")


def main() -> None:
    """Write the page, and a JSON line with each study's verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--anew", type=Path, help="run what today's code has not run yet, in this folder")
    parser.add_argument("--text", nargs="+", type=Path, help="with --anew: what most studies read")
    parser.add_argument("--play", type=Path, help="with --anew: a short script")
    parser.add_argument("--prose", type=Path, help="with --anew: the third of three texts")
    parser.add_argument("--numbers", type=Path, help="with --anew: recordings of running people")
    parser.add_argument("--mark", action="store_true", help="only say in the page which studies are stale")
    given = parser.parse_args()
    if given.mark:
        page = marked(given.out.read_text(encoding="utf-8"))
        given.out.write_text(page, encoding="utf-8")
        print(f"{stale(page)} studies of the page are of other code than today's")
        return
    folders = [*given.folders, *(anew(given) if given.anew else [])]
    if not folders:
        parser.error("name the studies' folders, or --anew FOLDER")
    here = machine()
    before = given.out.read_text(encoding="utf-8") if given.out.is_file() else ""
    page = written(folders, before)
    seconds = {
        folder.name: round(sum(run.seconds or 0.0 for run in collect(folder).runs)) for folder in folders
    }
    given.out.write_text(page, encoding="utf-8")
    print(page)
    finish({"machine": here, "training_seconds": seconds})


if __name__ == "__main__":
    main()
