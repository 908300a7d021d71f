"""What the report shows of a model of pairs: translations, and where it looks while it writes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from octavo.data.batches import Known
from octavo.report.plots import MUTED, VALIDATION, inline, new_figure
from octavo.task import Page
from octavo.util.terminal import shown

ALIGNERS = {"attention": "attention", "ibm1": "IBM model 1", "diagonal": "the diagonal"}


def of_evaluation(page: Page) -> dict[str, Any]:
    """For the page; lists are empty where nothing was written."""
    translations = page.evaluation.get("translations") or {}
    attention, alignment = translations.get("attention"), translations.get("alignment") or {}
    sizes = [("wide", 7.6), ("narrow", 4.6)]
    scores = translations.get("scores") or {}
    ways = scores.get("ways", ())
    return {
        "examples": translations.get("examples", []),
        "ways": [_way(one) for one in ways],
        "scored": f"{scores.get('pairs', 0):,}",
        "known": str(Known(**translations["known"])) if translations.get("known") else "",
        "signature": ways[0]["bleu"]["signature"] if ways else "",
        "attention_layer": attention and attention["layer"],
        "attention_plots": [_plot(attention, name, width) for name, width in sizes if attention],
        "errors": [
            (ALIGNERS.get(name, name), f"{100 * error:.1f} %")
            for name, error in alignment.get("error_rates", {}).items()
        ],
        "errors_of": f"{alignment.get('pairs', 0):,}",
    }


def search_in_words(way: Mapping[str, Any]) -> str:
    """How translations were looked for."""
    if way["beams"] == 1:
        return "greedy search"
    return f"{way['beams']} beams and length penalty {way['length_penalty']:g}"


def _way(way: Mapping[str, Any]) -> tuple[str, str, str]:
    """A way to search in words, its BLEU and its chrF."""
    return search_in_words(way), f"{way['bleu']['score']:.1f}", f"{way['chrf']['score']:.1f}"


def _plot(attention: Mapping[str, Any], name: str, width: float) -> Any:
    from markupsafe import Markup

    svg = attention_plot(attention, width=width)
    return Markup(inline(svg, f"attention-{name}", title="Attention to the source"))  # noqa: S704 — our own


def attention_plot(attention: Mapping[str, Any], *, width: float) -> str:
    """A picture of the weights, target tokens down and source tokens along; `width` in inches."""
    from matplotlib.colors import LinearSegmentedColormap

    weights = np.array(attention["weights"])  # (T, S)
    cell = min(0.42, (width - 1.6) / max(1, weights.shape[1]))
    left, top = 1.3, 1.1
    height = top + cell * weights.shape[0] + 0.15
    figure = new_figure(width, height)
    size = (cell * weights.shape[1] / width, cell * weights.shape[0] / height)
    axes = figure.add_axes((left / width, 0.15 / height, *size))
    shades = LinearSegmentedColormap.from_list("looks", [(0, f"{VALIDATION}00"), (1, VALIDATION)])
    rows, columns = weights.shape
    axes.pcolormesh(np.arange(columns + 1), np.arange(rows + 1), weights, cmap=shades, vmin=0, vmax=1)
    axes.set_ylim(rows, 0)
    axes.set_xticks(
        np.arange(columns) + 0.5, [plain(one) for one in attention["source"]], rotation=60, ha="left"
    )
    axes.set_yticks(np.arange(rows) + 0.5, [plain(one) for one in attention["target"]])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_color(MUTED)
    return figure.svg()


def plain(token: str) -> str:
    """A token as a label, whatever it holds."""
    return shown(token)[:14]
