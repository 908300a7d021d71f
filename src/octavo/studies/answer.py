"""A study's question, its answer in one sentence, and one line on each statistic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from octavo.studies.scale import Scale
from octavo.studies.verdict import Analysis, ChangeVerdict, listed

if TYPE_CHECKING:
    from octavo.studies.results import StudyResults
    from octavo.studies.spec import Study

CORRECTION = {
    True: "{count} changes have {count} chances to look good by luck; p-values and intervals allow for it",
    False: "none: there is a single comparison",
}
MOST_NAMED = 6
"""Changes with the same verdict that the answer names; it counts the rest."""


def question(study: Study) -> tuple[str, str]:
    """The study's question, and what else its description says.

    The first sentence of the description if it is a question; otherwise one made of the name and the changes.
    """
    first, *rest = re.split(r"(?<=[.?!])\s+", study.description.strip(), maxsplit=1)
    if first.endswith("?"):
        return first, " ".join(rest)
    name = study.name.strip()
    if name.endswith("?"):
        return name, study.description
    if len(study.changes) == 1:
        made = f"{name}: is “{study.changes[0].name}” better or worse than the baseline?"
    else:
        made = f"{name}: which of {len(study.changes)} changes are better or worse than the baseline?"
    return made[:1].upper() + made[1:], study.description


def answer(results: StudyResults, analysis: Analysis) -> str:
    """All verdicts in one sentence, which says so if the data are too few; before it, if the baseline has learned
    nothing, that.
    """
    verdicts = _verdicts(results, analysis)
    return f"{analysis.nothing_learned} {verdicts}" if analysis.nothing_learned else verdicts


def _verdicts(results: StudyResults, analysis: Analysis) -> str:
    groups: dict[str, list[ChangeVerdict]] = {}
    for verdict in analysis.verdicts:
        kind = str(verdict.verdict)
        kind = "no difference that this study could see" if kind == "no difference seen" else kind
        groups.setdefault(kind, []).append(verdict)
    if not groups.keys() - {"not judged"}:
        return "There is not enough to say yet."
    parts = [_ranked(groups[kind], analysis.scale) for kind in ("better", "worse") if kind in groups]
    for kind in sorted(kind for kind in groups if kind.startswith("no ")):
        parts.append(f"{_named(groups[kind])} {'makes' if len(groups[kind]) == 1 else 'make'} {kind}")
    if "too few seeds for this noise" in groups:
        parts.append(
            f"of {_named(groups['too few seeds for this noise'])} there are too few seeds for this noise"
        )
    if "unreliable" in groups:
        one = len(groups["unreliable"]) == 1
        parts.append(f"{_named(groups['unreliable'])} {'trains' if one else 'train'} unreliably")
    if "failed to train" in groups:
        parts.append(f"{_named(groups['failed to train'])} failed to train")
    if nothing := [one for one in analysis.verdicts if 2 * len(one.learned_nothing) > one.seeds]:
        parts.append(f"{_named(nothing)} learned nothing")
    if "not judged" in groups:
        parts.append(f"of {_named(groups['not judged'])} there is not enough to say yet")
    sentence = f"{'so far, ' if results.to_come else ''}{'; '.join(parts)}."
    return sentence[:1].upper() + sentence[1:]


def _ranked(verdicts: list[ChangeVerdict], scale: Scale) -> str:
    """Changes that are better, or worse: by how much, the largest difference first."""
    kind = verdicts[0].verdict
    sized = [(abs(verdict.difference), verdict) for verdict in verdicts if verdict.difference is not None]
    words = [
        f"“{verdict.change}” {'by' if position else f'is {kind} by'} {scale.text(size)}"
        for position, (size, verdict) in enumerate(sorted(sized, key=lambda pair: -pair[0])[:MOST_NAMED])
    ]
    parts = [f"{listed(words)} {scale.unit}"] if words else []
    if stopped := [verdict for verdict in verdicts if verdict.difference is None]:
        parts.append(f"{_named(stopped)} {'is' if len(stopped) == 1 else 'are'} {kind}, stopped early")
    if len(sized) > MOST_NAMED:
        parts.append(f"{len(sized) - MOST_NAMED} more are {kind}")
    return "; ".join(parts)


def _named(verdicts: list[ChangeVerdict]) -> str:
    names = [f"“{verdict.change}”" for verdict in verdicts]
    return listed(
        names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    )


def terms(analysis: Analysis) -> list[tuple[str, str]]:
    """Each statistic of the verdicts and one line on what it is; none before there are results."""
    found = (
        [(analysis.scale.unit.removeprefix("in "), analysis.scale.measure.meaning)]
        if analysis.mean is not None
        else []
    )
    if analysis.noise is not None:
        found.append(
            (
                "noise between seeds",
                "the noise floor, a standard deviation of runs that differ in their seed alone",
            )
        )
    if any(verdict.p is not None for verdict in analysis.verdicts):
        count = sum(verdict.p is not None for verdict in analysis.verdicts)
        found += [
            ("difference", "the mean of a change's runs less the mean of the baseline's"),
            ("seed by seed", "the same difference over the seeds that both have"),
            (
                "95 % interval",
                "where the true difference may well lie; a difference counts where this leaves out zero",
            ),
            ("p", "the chance of a difference at least this large if the change did nothing"),
            ("correction", CORRECTION[count > 1].format(count=count)),
            ("could see", "the smallest true difference that this study would find 19 times out of 20"),
        ]
    return found
