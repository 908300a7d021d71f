"""What the five reports claim, and what came out here: the table in docs/results.md.

A claim that a study tests takes its answer from that study's change, or says that it is not measured. The others stand
with what holds them: a test, or a result of their own. What a larger model brings is read from a ladder's baselines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from octavo.studies.arms import arm, counted
from octavo.studies.ladder import collected, ladder_of
from octavo.studies.results import StudyResults, by_improvement
from octavo.studies.spec import BASELINE
from octavo.studies.statistics import compare
from octavo.studies.table import markdown
from octavo.studies.verdict import ChangeVerdict, analyse_study, sorted_out


class Claim(NamedTuple):
    """A sentence of a report, and the study that tests it or what holds it."""

    report: str
    says: str
    study: str = ""
    change: str = ""
    here: str = ""
    agrees: str = ""
    by: Literal["hypothesis", "worse", "learned", "ranks"] = "hypothesis"
    """What a study's change must do for the claim to hold: what its hypothesis says, end worse, learn its own text, or
    rank alike by relative improvement and by bits per byte."""


NOT_MEASURED = "not measured"
SCALE = "layer-norm-ladder"
"""The ladder whose baselines say what a larger model brings: each size at a learning rate of its own."""
ALIKE = 1.25
"""Parameters × steps of two trainings that are as much computing differ by no more than this factor."""
CLAIMS = (
    Claim(
        "A",
        "a small GPT learns to write stories in pidgin",
        here="the demo, 0.45M parameters, the built-in storyteller's stories: 199 to 200 of 200 pass the checker "
        "(benchmarks/results/demo.md)",
        agrees="yes, on easier stories",
    ),
    Claim(
        "A",
        "a vocabulary made from the data is wide enough, a fixed list is not",
        here="TinyStories: 850 listed words cover 64.2 % of new stories, the 850 most frequent of other stories 91.0 % "
        "(benchmarks/results/vocabularies.md)",
        agrees="yes, at thousands of words",
    ),
    Claim(
        "B",
        "a GPT can be made of tensors alone",
        here="equal to the GPT of `torch.nn` in losses and gradients (a test)",
        agrees="yes",
    ),
    Claim(
        "C",
        "scores are divided by √(head width); its listing takes the model's",
        "attention-scale-cpu",
        "scale by model width",
        by="worse",
    ),
    Claim(
        "C",
        "three hours and 6 GB of GPU memory are enough for 2 million tokens",
        agrees=f"{NOT_MEASURED}: needs a GPU",
    ),
    Claim(
        "D",
        "162,419,712 parameters, 123,822,336 without the head",
        here="counted (a test)",
        agrees="yes, exactly",
    ),
    Claim(
        "D",
        "stories of GPT-2's small shape drift and repeat after 20 epochs",
        agrees=f"{NOT_MEASURED}: needs a GPU for hours",
    ),
    Claim(
        "E",
        "14,335,553, 2,006,454 and 11,168,977 parameters in its three tables",
        here="counted (a test)",
        agrees="yes, exactly",
    ),
    Claim(
        "E",
        "“Thank you!” is 10 characters, and 3 tokens of GPT-2's",
        here="encoded (a test)",
        agrees="yes, exactly",
    ),
    Claim("E", "one head is about as good as eight", "heads-cpu", "1 head, as wide together"),
    Claim(
        "E",
        "without layer normalization it converges, about 0.1 nats worse",
        "layer-norm-cpu",
        "without layer norm",
    ),
    Claim(
        "E",
        "without residual connections it does not converge",
        "residual-connections-cpu",
        "without residual connections",
    ),
    Claim(
        "E",
        "the large model over-fits the short script, the small one cures it",
        "overfit-and-cure-cpu",
        "smaller",
    ),
    Claim(
        "E",
        "the model of the long text over-fits a script a tenth as long",
        "short-script-cpu",
        "four times as long",
    ),
    Claim("E", "the same model learns Robinson Crusoe", "three-texts-cpu", "other prose", by="learned"),
    Claim(
        "E",
        "encodings compare by relative improvement",
        "encodings-cpu",
        "GPT-2's encoding, as many tokens",
        by="ranks",
    ),
    Claim("E", "pre-norm, with post-norm written down beside it", "norm-place-cpu", "post-norm"),
    Claim(
        "E",
        "generated text is corrected by a language tool afterwards",
        here="its printed sentence, through a server that answers as LanguageTool does (a test)",
        agrees="yes",
    ),
    Claim("E", "penalties in the loss for wrong output, named as an idea", "penalty-cpu", "penalty"),
    Claim("E", "rotary positions, named as a next step", "positions-cpu", "rotary"),
    Claim("E", "a larger scale, named as a next step", SCALE),
)


def table(found: Iterable[StudyResults], ladders: Iterable[Path] = (), earlier: str = "") -> str:
    """Markdown: report says, here and at which size, agrees? Of studies and ladders (folders) that are not found, the
    answer of an `earlier` table stays."""
    answered = {cells[1]: cells[2:] for line in earlier.splitlines() if len(cells := _cells(line)) == 4}
    by_name = {results.study.name: results for results in found}
    sizes = {folder.name: folder for folder in ladders}
    rows = [["report", "says", "here, at which size", "agrees?"]]
    for claim in CLAIMS:
        here, agrees = claim.here, claim.agrees
        if not here and claim.study in sizes:
            here, agrees = _larger(sizes[claim.study])
        elif not here and claim.study and claim.study not in by_name and claim.says in answered:
            here, agrees = answered[claim.says]
        elif not here and claim.study:
            here, agrees = _answer(claim, by_name.get(claim.study))
        rows.append([claim.report, claim.says, here or "–", agrees or NOT_MEASURED])
    return markdown(rows)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _answer(claim: Claim, results: StudyResults | None) -> tuple[str, str]:
    if results is None:
        return f"study `{claim.study}`", NOT_MEASURED
    analysis = analyse_study(results)
    verdict = next((one for one in analysis.verdicts if one.change == claim.change), None)
    if verdict is None or analysis.nothing_learned or verdict.verdict == "not judged":
        return f"study `{claim.study}`", NOT_MEASURED
    sizes = [run.parameters for run in results.of(BASELINE) if run.parameters]
    steps = [run.step for run in results.of(BASELINE) if run.step]
    size = f"{sizes[0] / 1e6:.1f}M parameters, {max(steps):,} steps: " if sizes and steps else ""
    here, holds = _held(claim, results, verdict)
    return size + here, {True: "yes", False: "no", None: "not decided"}[holds]


def _held(claim: Claim, results: StudyResults, verdict: ChangeVerdict) -> tuple[str, bool | None]:
    """What came out, and whether it is what the claim says; None where that is not decided."""
    said = verdict.statement.partition(" (")[0]
    if claim.by == "learned":
        runs = sorted_out(results)[0][claim.change]
        counting = (counted(results, runs[0]).get("trigram") or {}).get("bits_per_byte") if runs else None
        if verdict.mean is None or counting is None:
            return said, None
        return f"{verdict.mean:.3f} bits per byte, counting trigrams {counting:.3f}", verdict.mean < counting
    if claim.by == "ranks":
        shares = analyse_study(by_improvement(results)).verdicts
        other = next(one for one in shares if one.change == claim.change)
        seen = {verdict.verdict, other.verdict} <= {"better", "worse"}
        both = f"{said}, {other.statement.partition(' (')[0]}"
        return both, verdict.verdict == other.verdict if seen else None
    if claim.by == "worse":
        return said, verdict.verdict == "worse" if verdict.verdict in ("better", "worse") else None
    return said, verdict.held


def _larger(folder: Path) -> tuple[str, str]:
    """The largest model of a ladder beside its smallest, baseline beside baseline: after as many steps, and after as
    much computing."""
    ladder = ladder_of(folder)
    found = {rung: results for rung in ladder.rungs if (results := collected(folder, "rungs", rung))}
    runs = {rung: sorted_out(results)[0][BASELINE] for rung, results in found.items()}
    parameters = {rung: each[0].parameters or 0 for rung, each in runs.items() if len(each) > 1}
    costs = {rung: parameters[rung] * rung.steps for rung in parameters}
    ends = (min(parameters.values(), default=0), max(parameters.values(), default=0))
    first, last = ([rung for rung in parameters if parameters[rung] == end] for end in ends)
    pairs = [(one, other) for one in first for other in last]
    said, agrees = [], []
    for how, alike in (
        ("as many steps", [(one, other) for one, other in pairs if one.steps == other.steps]),
        (
            "as much computing",
            [pair for pair in pairs if 1 / ALIKE < costs[pair[1]] / costs[pair[0]] < ALIKE],
        ),
    ):
        if not alike:
            return "–", NOT_MEASURED
        small, large = max(alike, key=lambda pair: costs[pair[0]])
        small_arm, large_arm = (arm(found[rung], runs[rung], steady=True) for rung in (small, large))
        contrast = compare(small_arm, [large_arm])[1][0]
        better = contrast.seen and contrast.difference < 0
        word = ("better" if better else "worse") + f" by {abs(contrast.difference):.3f}"
        said.append(
            f"{word if contrast.seen else 'no difference seen'} after {how} ({small.steps:,} and {large.steps:,})"
        )
        agrees.append(f"{'yes' if better else 'no'}, after {how}")
    return f"{large.size} beside {small.size} parameters, bits per byte: {', '.join(said)}", "; ".join(agrees)
