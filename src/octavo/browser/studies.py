"""What the page knows of each study: its runs, and the verdicts as they come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from octavo.browser.runs import NOTHING, Stamp, stamp
from octavo.errors import OctavoError
from octavo.studies.plan import run_path
from octavo.studies.results import collect, is_study, study_of
from octavo.studies.spec import BASELINE
from octavo.studies.verdict import analyse_study
from octavo.util.files import is_held


@dataclass(frozen=True)
class Variant:
    """The baseline, or a change."""

    slug: str
    name: str
    hypothesis: str
    done: int
    planned: int
    verdict: str | None = None
    sentence: str | None = None


@dataclass(frozen=True)
class StudyCard:
    """A study as the page lists it."""

    id: str
    path: str
    name: str = ""
    description: str = ""
    metric: str = ""
    held: bool = False
    done: int = 0
    planned: int = 0
    variants: tuple[Variant, ...] = ()
    nothing_learned: str | None = None
    notes: tuple[str, ...] = ()
    damage: str | None = None


class FollowedStudy:
    """A study's folder, and what was read of it so far. It is judged anew where a run has ended."""

    def __init__(self, id: str, path: Path, shown: str) -> None:
        self.path, self.card = path, StudyCard(id, shown)
        self.runs: dict[Path, tuple[str, int]] = {}
        """Where each run lies or will lie, with its variant's slug and its seed."""
        self._stamp: Stamp = NOTHING
        self._ended: tuple[Stamp, ...] | None = None

    def look(self) -> StudyCard:
        """What there is now. Judging takes a moment."""
        try:
            now = stamp(self.path / "study.yaml")
            if now != self._stamp:
                self._stamp, self._ended = now, None
                self._read()
            ended = tuple(stamp(run / "outcome.json") for run in self.runs)
            if ended != self._ended:
                self._ended = ended
                self._judge()
            self.card = replace(self.card, held=is_held(self.path / ".lock"), damage=None)
        except OctavoError as error:
            self.card = replace(self.card, damage=error.what)
        except (OSError, ValueError) as error:
            self.card = replace(self.card, damage=f"{self.path.name}: {error}")
        return self.card

    def _read(self) -> None:
        self.runs = {}
        if not is_study(self.path):
            self.card = replace(self.card, name=self.path.name)
            return
        study = study_of(self.path)
        variants = []
        for variant in study.variants:
            seeds = study.seeds_of(variant)
            self.runs |= {run_path(self.path, variant.slug, seed): (variant.slug, seed) for seed in seeds}
            variants.append(Variant(variant.slug, variant.name, variant.hypothesis or "", 0, len(seeds)))
        self.card = replace(
            self.card,
            name=study.name,
            description=study.description or "",
            metric=study.metric,
            planned=len(self.runs),
            variants=tuple(variants),
        )

    def _judge(self) -> None:
        if not self.runs:
            return
        results = collect(self.path)
        done = {one.slug: len(results.of(one.slug)) for one in self.card.variants}
        analysis = analyse_study(results) if results.runs else None
        said = {one.slug: one for one in analysis.verdicts} if analysis else {}
        variants = [
            replace(
                one,
                done=done[one.slug],
                verdict=said[one.slug].verdict if one.slug != BASELINE and one.slug in said else None,
                sentence=said[one.slug].sentence if one.slug != BASELINE and one.slug in said else None,
            )
            for one in self.card.variants
        ]
        self.card = replace(
            self.card,
            done=len(results.runs),
            variants=tuple(variants),
            nothing_learned=analysis.nothing_learned if analysis else None,
            notes=analysis.notes if analysis else (),
        )
