"""Logarithmic axes: round numbers, enough of them, and labels that say what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.report import plots
from octavo.report.data import ReportData
from octavo.report.figure import Plot
from octavo.report.plots import coverage_plot, growth_plot, kept_plot
from octavo.tasks.forecast.report import ahead, save_plot
from octavo.tasks.records.task import RecordsTask
from octavo.util.output import Output


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Plot]:
    """The figures that were made, in order."""
    found: list[Plot] = []
    original = plots.new_figure

    def kept(*size: float) -> Plot:
        found.append(original(*size))
        return found[-1]

    monkeypatch.setattr(plots, "new_figure", kept)
    return found


@pytest.mark.parametrize("width", [7.6, 4.6])
def test_nothing_beside_a_plot_of_losses_is_cut_off(width: float) -> None:
    rows = [{"event": "train", "step": step, "loss": 0.2 / step} for step in (1, 2, 3)]
    rows += [{"event": "validation", "step": 3, "loss": 0.07}]
    names = {"factorised": 0.0712, "gzip_symbols": 0.0733}
    baselines = {name: {"loss": loss, "bits_per_byte": None} for name, loss in names.items()}
    figure = plots.loss_plot(
        ReportData(title="run", metrics=rows, evaluation={"baselines": baselines}, task=RecordsTask()),
        width=width,
    )
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for text in (*axes.texts, axes.yaxis.label):
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, text.get_text()
    assert any("each place on its own" in text.get_text() for text in axes.texts)


def check(axis: Any) -> None:
    low, high = axis.get_view_interval()
    ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
    labels = [axis.get_major_formatter()(tick) for tick in ticks]
    assert 2 <= len(ticks) <= plots.MOST_TICKS
    assert all(f"{tick:.9e}"[:11] in ("1.000000000", "2.000000000", "5.000000000") for tick in ticks), ticks
    factors = {"M": 1e6, "G": 1e9}
    for tick, label in zip(ticks, labels, strict=True):
        number, _, unit = label.replace(",", "").partition(" ")
        assert float(number) * factors.get(unit, 1) == pytest.approx(tick)
    assert not len(axis.get_minorticklocs())


@pytest.mark.parametrize("first", [1, 3, 40, 700, 6_000, 90_000])
@pytest.mark.parametrize("ratio", [1, 1.2, 1.5, 2.2, 9, 200, 1_500, 1e7])
def test_ticks_of_a_logarithmic_axis_are_round(drawn: list[Plot], first: int, ratio: float) -> None:
    counts = [int(count) for count in np.geomspace(first, first * ratio, 5)]
    growth_plot([(count, count) for count in counts], None)
    check(drawn[0].axes[0].xaxis)
    check(drawn[0].axes[0].yaxis)


def test_so_are_those_of_a_vocabulary(drawn: list[Plot]) -> None:
    coverage_plot([(300, 0.5), (400, 0.6)])
    kept_plot([{"size": size, "coverage": 0.5, "share": 0.1} for size in (3_000, 4_500)], 4_500)
    for figure in drawn:
        check(figure.axes[0].xaxis)


def test_numbers_below_one_and_of_millions() -> None:
    axes = plots.new_figure(5, 3).add_subplot()
    axes.plot([0.002, 3e6], [1, 2])
    plots.log_axis(axes, "x")
    check(axes.xaxis)
    assert (
        plots._counted(2e6) == "2 M" and plots._counted(0.05) == "0.05" and plots._counted(5e5) == "500,000"
    )


@pytest.mark.parametrize("width", [7.6, 4.6])
@pytest.mark.parametrize(("step", "rate"), [(1, 0.03), (20_011, 1.234e-9)])
def test_panels_and_their_labels_stand_in_the_figure_and_apart(
    drawn: list[Plot], width: float, step: int, rate: float
) -> None:
    """As matplotlib itself measures them, which `progress_plot` does not wait for."""
    rows = [
        {"event": "train", "step": step * n, "learning_rate": rate / n, "gradient_norm": 1.5 * n}
        for n in range(1, 400)
    ]
    plots.progress_plot(ReportData(title="run", metrics=rows), width=width)
    (figure,) = drawn
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert len(boxes) == 2
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
    assert not boxes[0].overlaps(boxes[1])


def test_a_dollar_in_a_name_is_a_dollar() -> None:
    figure = plots.new_figure(4, 3)
    axes = figure.add_subplot()
    name = r"batch times $\tfrac{1}{2}$ {$x_{"
    axes.plot([1, 2], [1, 2], label=name)
    axes.set_title(name)
    axes.set_yticks([1, 2], [name, "other"])
    axes.legend()
    assert figure.svg().startswith("<?xml")


def test_dollars_in_names_are_dollars_wherever_a_figure_goes(tmp_path: Path) -> None:
    figure = Plot(3, 2, paper="white")
    figure.subplots().set_title("$a_$ of $b^")
    figure.tight_layout(pad=0.6)
    assert figure.svg().startswith("<?xml")
    for name in ("a.png", "a.svg"):
        save_plot(figure, Output(tmp_path / name, inputs=(), force=False))
        assert (tmp_path / name).stat().st_size > 1000


def test_a_horizon_in_words() -> None:
    assert ahead(3, 300.0) == "3 steps ahead (10 ms)"
    assert ahead(450, 300.0) == "450 steps ahead (1.5 s)"
    assert ahead(1, None) == "1 step ahead"
