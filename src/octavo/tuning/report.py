"""The page of a tuned run, and its figures as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import InputError
from octavo.report.plots import TRAIN, inline, new_figure, series, tidy
from octavo.run.run import Run
from octavo.tuning.plots import Reached, frontier_plot
from octavo.util.files import replace_text, storage_errors
from octavo.util.html import templates
from octavo.util.records import json_text
from octavo.util.stats import SAID

if TYPE_CHECKING:
    from octavo.tuning.judge import Verdict

CURVES = {
    "reward": "reward",
    "kl": "KL from the base, nats a text",
    "entropy": "entropy, nats a token",
    "length": "tokens a text",
    "distinct_2": "different pairs of tokens",
    "flat_groups": "groups that teach nothing",
}
ROWS = (
    ("mean", "reward", "{:.3f}"),
    ("tokens", "tokens a text", "{:.1f}"),
    ("ended", "texts that end", "{:.1%}"),
    ("distinct_2", "different pairs of tokens, over all texts", "{:.1%}"),
    ("distinct_4", "different runs of 4 tokens, over all texts", "{:.1%}"),
    ("repeated_4", "runs of 4 tokens repeated within a text", "{:.1%}"),
    ("different_texts", "different texts", "{:.1%}"),
)


def write_page(run: Run, verdict: Verdict, others: Sequence[Reached] = ()) -> Path:
    """Write report/tuning.html and tuning.json into the run; returns the page. `others` are drawn beside it. Raises
    StorageError."""
    if run.folder is None:
        raise InputError(f"{run.path} is a checkpoint alone; a run folder takes the page.")
    folder, figures = run.folder, verdict.figures
    rows = [row for row in run.metrics if row.get("event") == "train" and "kl" in row]
    path = {name: [row[name] for row in rows] for name in ("kl", "reward")} if rows else None
    same = figures["reward"] == run.config.objective.model_dump(mode="json").get("reward")
    plot = frontier_plot(
        verdict.ceiling.curve,
        verdict.ceiling.best_of_n,
        name=figures["reward"]["kind"],
        reached=[verdict.reached, *others],
        path=path if same else None,
    ).svg()
    here = Path(__file__).parent
    page = templates(here).get_template("tuning.html")
    text = page.render(
        name=run.path.name,
        alone=not others,
        level=SAID,
        verdict=verdict,
        frontier=inline(plot, "frontier", title="reward against KL"),
        curves=inline(curves_plot(rows), "curves", title="what changed on the way") if rows else "",
        table=[
            (label, form.format(figures["base"][key]), form.format(figures["tuned"][key]))
            for key, label, form in ROWS
        ],
        style=(here.parent / "report" / "style.css").read_text(encoding="utf-8"),
    )
    with storage_errors(folder.path):
        folder.report.mkdir(exist_ok=True)
        replace_text(folder.path / "tuning.json", json_text(figures, indent=1))
        replace_text(folder.report / "tuning.html", text)
    return folder.report / "tuning.html"


def curves_plot(rows: list[dict[str, Any]]) -> str:
    """What changed over the steps, an SVG document."""
    figure = new_figure(7.6, 4.2)
    for axes, (key, title) in zip(figure.subplots(2, 3).flat, CURVES.items(), strict=True):
        steps, values = series(rows, key)
        axes.plot(steps, values, color=TRAIN, linewidth=1.3)
        axes.set_title(title, loc="left", fontsize=8.5)
        tidy(axes)
        axes.yaxis.set_major_formatter("{x:g}")
    figure.tight_layout(pad=0.6, w_pad=1.6, h_pad=1.4)
    return figure.svg()
