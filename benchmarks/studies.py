"""The page of results from finished studies: what each asked, what came out, and what differs from the report.

    python benchmarks/studies.py STUDY_FOLDER … --out docs/results.md
    python benchmarks/studies.py --anew FOLDER --text PATH --play PATH --prose PATH --numbers PATH --out docs/results.md
    python benchmarks/studies.py --anew FOLDER --only heads-ladder optimizers-cpu --text PATH --out docs/results.md
    python benchmarks/studies.py --again --out docs/results.md
    python benchmarks/studies.py --mark --out docs/results.md

The first writes studies and ladders that were run (`octavo study run NAME --text PATH --out FOLDER`) into the page;
what the page says of others stays, with the code that it is of. The second runs those first that were not run by
today's code; the same command resumes it. A study whose files are not named is passed over; ladders run where `--only`
names them. What judging takes is kept in `results/studies`, also of runs that ended before a stop: another machine goes
on from there, and `--again` judges it anew by today's code. `--mark` only says in the page which studies are of other
code than today's.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from claims import table
from common import finish, machine
from kept import END, keep, restore, sources, text_names
from octavo.config import override_words
from octavo.errors import ConfigError, Interrupted, MissingExtra
from octavo.studies.ladder import is_ladder, run_ladder
from octavo.studies.ladder_report import section
from octavo.studies.provenance import code_sha256, marked, same_figures, stale
from octavo.studies.resolve import load_study
from octavo.studies.results import StudyResults, collect
from octavo.studies.run import run_study
from octavo.studies.spec import study_names
from octavo.studies.table import summary
from octavo.util.terminal import Console

HEAD = """\
# Results of the shipped studies

Every study below is shipped: `octavo study run NAME --text PATH --out FOLDER` repeats it. These are the small forms,
for a laptop: most are of models of some 0.8 million parameters after 600 steps. They say what holds at that size and
length; where one differs from the report that it follows, it says so, and the large form is there to be run.
[What a verdict means](guide/studies.md) tells how noise, intervals and the correction for many comparisons are taken.

This page is written by `benchmarks/studies.py` from the studies' folders; below each stands what it was run on. Where
`benchmarks/results/studies` has what it takes, `--again` judges a study by today's code without running it.

Texts: TinyShakespeare, unless said otherwise. *three-texts* has Robinson Crusoe as its other prose and Oscar Wilde's
play An Ideal Husband as its short script; *overfit-and-cure* and *short-script* have that play.

*tokenizers* flatters words: their list is read from the whole text, so the validation split has no word that is not in
it, and none has to be spelled. The n-grams in its table are of characters.

"""


CLAIMS_HEAD = """\
## What the reports claim

A study answers for the size and length that it names. “Not measured” is what has no result of today's studies yet.

"""


KEPT = Path(__file__).parent / "results" / "studies"
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


def anew(given: argparse.Namespace) -> Iterator[Path]:
    """The small studies, or those that are named, as run by today's code, each in a folder that says by which; what is
    there or kept already is not run again."""
    there, names = given.anew / code_sha256()[:12], names_of(given)
    for name in study_names():
        if name not in given.only if given.only else not name.endswith("-cpu"):
            continue
        if (found := reads(name, given)) is None:
            print(f"passed over, for its files are not named: {name}", file=sys.stderr)
            continue
        text, further = found
        folder, kept = there / name, given.kept / f"{name}{END}"
        if kept.is_file():
            if sources(kept) - same_figures():
                raise SystemExit(f"{kept} is of other code; remove it to run {name} anew")
            restore(kept, folder, names)
        runs = run_ladder if name.endswith("-ladder") else run_study
        overrides = [*override_words(further), *given.set]
        try:
            runs(name, text, folder, overrides=overrides, jobs=given.jobs, console=Console())
        except MissingExtra as error:
            print(f"passed over: {name}. {error.what}", file=sys.stderr)
            continue
        except Interrupted as error:
            print(f"{name}: {error.what}", file=sys.stderr)
            if is_ladder(folder):  # its rungs stand for themselves, and it says which are missing
                yield folder
            return
        finally:  # what has ended is not lost when the rest is stopped
            if folder.is_dir():
                keep(folder, kept, names)
        yield folder


def names_of(given: argparse.Namespace) -> dict[str, str]:
    """Of all texts that are named."""
    return text_names(filter(None, [*(given.text or ()), given.play, given.prose, given.numbers]))


def studies_in(folder: Path) -> list[StudyResults]:
    """A study, or all of a ladder."""
    return [collect(file.parent) for file in sorted(folder.rglob("study.yaml"))]


def sections(page: str) -> dict[str, str]:
    """What stands below each heading of a page, heading and all, by name."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].removeprefix("## "): part.rstrip() for part in parts}


def written(folders: list[Path], before: str) -> str:
    """The page with the studies of some folders in it, and those of the page before that are not among them."""
    ladders = [folder for folder in folders if is_ladder(folder)]
    folders = [folder for folder in folders if folder not in ladders]
    found, kept = [collect(folder) for folder in folders], sections(before)
    earlier = kept.get(CLAIMS_HEAD.partition("\n")[0].removeprefix("## "), "")
    claims = CLAIMS_HEAD + table(found, ladders, earlier)
    studies = {name: text for name, text in kept.items() if name in study_names()}
    studies |= sections(summary(folders)) | sections("\n".join(map(section, ladders)))
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
    parser.add_argument("--only", nargs="+", default=[], help="with --anew: these studies and ladders alone")
    parser.add_argument("--jobs", type=int, help="with --anew: runs side by side")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="with --anew: for all that is run"
    )
    parser.add_argument("--kept", type=Path, default=KEPT, help="where what judging takes is kept")
    parser.add_argument("--again", action="store_true", help="judge all that is kept by today's code")
    parser.add_argument("--mark", action="store_true", help="only say in the page which studies are stale")
    given = parser.parse_args()
    if unknown := set(given.only) - set(study_names()):
        parser.error(f"no shipped study: {', '.join(sorted(unknown))}")
    if given.mark:
        page = marked(given.out.read_text(encoding="utf-8"))
        given.out.write_text(page, encoding="utf-8")
        print(f"{stale(page)} studies of the page are of other code than today's")
        return
    if not (given.folders or given.anew or given.again):
        parser.error("name the studies' folders, --anew FOLDER or --again")
    here = machine()
    for folder in given.folders:
        keep(folder, given.kept / f"{folder.name}{END}", names_of(given))
    with tempfile.TemporaryDirectory(prefix="octavo-kept-") as temporary:
        folders = [*given.folders, *(anew(given) if given.anew else [])]
        folders += again(given.kept, Path(temporary)) if given.again else []
        before = given.out.read_text(encoding="utf-8") if given.out.is_file() else ""
        page, seconds = written(folders, before), {folder.name: trained(folder) for folder in folders}
    given.out.write_text(page, encoding="utf-8")
    print(page)
    finish({"machine": here, "training_seconds": seconds})


def again(kept: Path, under: Path) -> list[Path]:
    """All that is kept, as folders; not studies in the middle, which are no result. A ladder says what is missing."""
    folders = []
    for file in sorted(kept.glob(f"*{END}")):
        folders.append(under / file.name.removesuffix(END))
        restore(file, folders[-1], {})
    return [
        folder
        for folder in folders
        if is_ladder(folder) or not any(results.to_come for results in studies_in(folder))
    ]


def trained(folder: Path) -> int:
    """Seconds of training in all runs of a study or a ladder."""
    return round(sum(run.seconds or 0.0 for results in studies_in(folder) for run in results.runs))


if __name__ == "__main__":
    main()
