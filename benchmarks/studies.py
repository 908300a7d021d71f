"""The page of results from finished studies: what each asked, what came out, and what differs from the report.

    python benchmarks/studies.py STUDY_FOLDER … --out docs/results.md

Run the studies first (`octavo study run NAME --text PATH --out FOLDER`); nothing is trained here.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from common import finish, machine
from octavo.studies.results import collect
from octavo.studies.table import summary

HEAD = """\
# Results of the shipped studies

Every study below is shipped: `octavo study run NAME --text PATH --out FOLDER` repeats it. These are the small forms,
for a laptop: models of some 0.8 million parameters after 600 steps. They say what holds at that size and
length; where one differs from the report that it follows, it says so, and the large form is there to be run.
[What a verdict means](studies.md) tells how noise, intervals and the correction for many comparisons are taken.

This page is written by `benchmarks/studies.py` from the studies' folders. Run on {machine}.

Texts: TinyShakespeare, unless said otherwise. *three-texts* has the first 2 MiB of TinyStories as its other prose and
Oscar Wilde's play An Ideal Husband as its short script; *overfit-and-cure* has that play.

"""


def main() -> None:
    """Write the page, and a JSON line with each study's verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    folders, here = sorted(given.folders, key=lambda folder: folder.name), machine()
    page = HEAD.format(
        machine=f"{here['cores']} cores of {here['processor']}, torch {here['torch']}"
    ) + summary(folders)
    seconds = {
        folder.name: round(sum(run.seconds or 0.0 for run in collect(folder).runs)) for folder in folders
    }
    given.out.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(page)
    finish({"machine": here, "training_seconds": seconds})


if __name__ == "__main__":
    main()
