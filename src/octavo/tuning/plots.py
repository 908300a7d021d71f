"""Reward against KL as a plot. The same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from octavo.report.plots import (
    BASELINE,
    INK,
    MUTED,
    SOURCE,
    TRAIN,
    VALIDATION,
    Label,
    new_figure,
    place,
    tidy,
)
from octavo.tuning.ceiling import Curve

if TYPE_CHECKING:
    from octavo.report.figure import Plot


MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼"}
"""Of policies in a plot, and the same in their labels."""

LONGEST = 16
"""Letters of a name in a plot."""


class Reached(NamedTuple):
    """A policy in the plot: its KL from the base and its reward, with the reward's interval."""

    name: str
    kl: float
    reward: float
    low: float
    high: float


def _short(name: str) -> str:
    """A run's name, as long as there is room beside the plot."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def frontier_plot(
    ceiling: Curve,
    best_of_n: Curve,
    *,
    name: str,
    reached: Sequence[Reached] = (),
    path: Mapping[str, Sequence[float]] | None = None,
    width: float = 7.6,
) -> Plot:
    """The ceiling with its band, best-of-n beneath it, and policies.

    `name`: of the reward. `path`: kl and reward of a policy as it learned.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure = new_figure(width, 4.2)
    axes = figure.add_axes((0.6 / width, 0.125, 1 - 2.3 / width, 0.78))
    labels = [Label(float(ceiling.reward[-1]), f"ceiling {ceiling.reward[-1]:.3g}", SOURCE)]
    axes.fill_between(ceiling.kl, ceiling.low, ceiling.high, color=SOURCE, alpha=0.18, linewidth=0)
    axes.plot(ceiling.kl, ceiling.reward, color=SOURCE, linewidth=2.2)
    axes.plot(ceiling.kl[-1], ceiling.reward[-1], color=SOURCE, marker="|", markersize=12, markeredgewidth=2)
    axes.fill_between(best_of_n.kl, best_of_n.low, best_of_n.high, color=BASELINE, alpha=0.18, linewidth=0)
    axes.plot(best_of_n.kl, best_of_n.reward, color=BASELINE, linewidth=1.2, marker="o", markersize=3.5)
    last = int(best_of_n.labels[-1])
    labels.append(Label(float(best_of_n.reward[-1]), f"best of {last} {best_of_n.reward[-1]:.3g}", BASELINE))
    if path:
        axes.plot(path["kl"], path["reward"], color=TRAIN, linewidth=1.0, alpha=0.8)
        labels.append(Label(path["reward"][-1], "while it learned", TRAIN))
    for one, (marker, sign) in zip(reached, cycle(MARKERS.items())):
        error = [[one.reward - one.low], [one.high - one.reward]]
        axes.errorbar(one.kl, one.reward, yerr=error, color=VALIDATION, marker=marker, capsize=3, zorder=5)
        labels.append(Label(one.reward, f"{sign} {_short(one.name)} {one.reward:.3g}", VALIDATION))
    axes.set_xlabel("KL from the base, nats for a text")
    axes.set_ylabel("reward")
    axes.set_title(f"reward: {name}", loc="left", fontsize=9.5, color=INK)
    tidy(axes)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axhline(ceiling.reward[0], color=MUTED, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    labels.append(Label(float(ceiling.reward[0]), f"base {ceiling.reward[0]:.3g}", MUTED))
    place(axes, labels)
    return figure
