"""What the five reports claim, and what came out here: the table in docs/results.md.

A claim that a study tests takes its answer from that study's change, or says that it is not measured. The others stand
with what holds them: a test, or a result of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from octavo.studies.results import StudyResults
from octavo.studies.table import markdown
from octavo.studies.verdict import analyse_study


class Claim(NamedTuple):
    """A sentence of a report, and the study that tests it or what holds it."""

    report: str
    says: str
    study: str = ""
    change: str = ""
    here: str = ""
    agrees: str = ""


NOT_MEASURED = "not measured"
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
    ),
    Claim("C", "three hours and 6 GB of GPU memory are enough for 2 million tokens"),
    Claim(
        "D",
        "162,419,712 parameters, 123,822,336 without the head",
        here="counted (a test)",
        agrees="yes, exactly",
    ),
    Claim("D", "stories of GPT-2's small shape drift and repeat after 20 epochs"),
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
    Claim("E", "the same model learns Robinson Crusoe", "three-texts-cpu", "other prose"),
    Claim(
        "E", "encodings compare by relative improvement", "encodings-cpu", "GPT-2's encoding, as many tokens"
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
    Claim("E", "a larger scale, named as a next step"),
)


def table(found: Iterable[StudyResults], earlier: str = "") -> str:
    """Markdown: report says, here and at which size, agrees? Of studies that are not found, the answer of an `earlier`
    table stays."""
    answered = {cells[1]: cells[2:] for line in earlier.splitlines() if len(cells := _cells(line)) == 4}
    by_name = {results.study.name: results for results in found}
    rows = [["report", "says", "here, at which size", "agrees?"]]
    for claim in CLAIMS:
        here, agrees = claim.here, claim.agrees
        if not here and claim.study and claim.study not in by_name and claim.says in answered:
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
    sizes = [run.parameters for run in results.of("baseline") if run.parameters]
    steps = [run.step for run in results.of("baseline") if run.step]
    size = f"{sizes[0] / 1e6:.1f}M parameters, {max(steps):,} steps: " if sizes and steps else ""
    agrees = {True: "yes", False: "no", None: "not decided"}[verdict.held]
    return f"{size}{verdict.statement.partition(' (')[0]}", agrees
