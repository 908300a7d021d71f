"""The page itself: one HTML file without requests, and without scripts but that of an explainer (`octavo.explain`); and
the loss curve as a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple, get_args

import yaml

from octavo.report import plots, sections
from octavo.report.data import ReportData, Sample
from octavo.report.promised import of_promise
from octavo.report.sections import of_counted
from octavo.task import Place, Task
from octavo.util.files import replace_text
from octavo.util.html import templates

WIDE, NARROW = 7.6, 4.6
"""Inches; the narrow plots are for phones, where the wide ones' letters would be too small to read."""


class Explainer(NamedTuple):
    """A piece of HTML that runs the model, and the Content-Security-Policy of a page with it."""

    piece: str
    policy: str


BEGIN, END = "<!-- explainer -->", "<!-- end of explainer -->"
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def explainer_in(page: Path) -> Explainer | None:
    """The explainer of a page that was written before; None where it has none."""
    if not page.is_file():
        return None
    text = page.read_text(encoding="utf-8")
    policy, begin, end = _POLICY.search(text), text.find(BEGIN), text.rfind(END)
    if policy is None or not 0 <= begin < end:
        return None
    return Explainer(text[begin + len(BEGIN) : end].strip(), unescape(policy[1]))


def write_report(folder: Path, data: ReportData, explainer: Explainer | None = None) -> Path:
    """Write `report/index.html` and `report/loss.svg` into a run folder; returns the page's path. Without an
    `explainer` the page keeps the one that it has."""
    target = folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    loss = plots.loss_plot(data, width=WIDE).svg()
    replace_text(target / "loss.svg", loss)
    page = target / "index.html"
    replace_text(page, render(data, loss, explainer or explainer_in(page)))
    return page


def render(data: ReportData, loss: str, explainer: Explainer | None = None) -> str:
    """The page as text. `loss`: the wide loss plot."""
    from markupsafe import Markup

    standings = data.standings()
    scale = max((row.bits_per_byte for row in standings if row.bits_per_byte is not None), default=None)
    has_rates = bool(plots.series(data.rows("train"), "learning_rate")[0].size)
    losses = [(loss, "wide"), (plots.loss_plot(data, width=NARROW).svg(), "narrow")]
    rates = [
        (plots.progress_plot(data, width=width), name) for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
    ]
    own = data.task.sections(data, wide=WIDE, narrow=NARROW) if data.task else []
    judged_on = (data.task or Task).judged_on
    pages = templates(Path(__file__).parent, *{each.template.parent for each in own})
    return pages.get_template("template.html").render(
        data=data,
        part=data.part(),
        loss_plots=[
            Markup(plots.inline(svg, f"loss-{name}", title="Loss over the training steps"))  # noqa: S704 — our own
            for svg, name in losses
            if data.metrics
        ],
        rate_plots=[
            Markup(plots.inline(svg, f"rates-{name}", title="Learning rate and gradient norm"))  # noqa: S704 — our own
            for svg, name in rates
            if has_rates
        ],
        standings=standings,
        scale=scale,
        samples=by_step(data.samples),
        **of_evaluation(data),
        **of_counted(data.evaluation),
        **of_promise(data.manifest, data.evaluation, data.settings, data.metrics),
        own={place: [each.template.name for each in own if each.place == place] for place in get_args(Place)},
        judged_on=judged_on,
        **{name: value for each in own for name, value in each.values.items()},
        settings=yaml.safe_dump(dict(data.settings), sort_keys=False, allow_unicode=True)
        if data.settings
        else "",
        taught=bool(data.manifest.get("teachers")),
        machine=list(flat(data.manifest)),
        explainer=explainer and Markup("\n".join((BEGIN, explainer.piece, END))),  # noqa: S704 — our own
        policy=explainer and explainer.policy,
    )


def of_evaluation(data: ReportData) -> dict[str, Any]:
    """The diagnostics, and what of the evaluation is about the text that the model wrote."""
    evaluation = data.evaluation
    diagnostics = [{**one, "figures": sections.evidence(one)} for one in evaluation.get("diagnostics") or ()]
    sentences = {one["sentence"] for one in diagnostics}
    diversity = evaluation.get("diversity") or {}
    return {
        "said": [line for line in data.verdict if line not in sentences],
        "verdict": diagnostics[0] if diagnostics else None,
        "evidence": diagnostics[1:],
        "next": evaluation.get("next"),
        "copied": sections.copied(evaluation),
        "longest": sections.longest(evaluation),
        "searched": (evaluation.get("memorization") or {}).get("searched", 1.0),
        "variety": sections.variety(evaluation),
        "unit": diversity.get("unit"),
        "amount": diversity.get("generated"),
    }


def by_step(samples: Sequence[Sample]) -> list[tuple[int, list[Sample]]]:
    """The newest step first; within a step, the prompts in their order."""
    steps: dict[int, list[Sample]] = {}
    for sample in samples:
        steps.setdefault(sample.step, []).append(sample)
    return sorted(steps.items(), reverse=True)


def flat(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """A tree's leaves with their dotted names; long lists and empty values are left out."""
    for key, value in tree.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if value and all(isinstance(item, Mapping) for item in value):
                yield from flat({str(number): item for number, item in enumerate(value, start=1)}, f"{name}.")
            elif 0 < len(value) <= 8:
                yield name, ", ".join(str(item) for item in value)
        elif value is not None and value != "":
            yield name, str(value)
