"""The page of a run that learned from pairs: curves of both answers."""

from __future__ import annotations

from octavo.report import ReportData
from octavo.tasks.chat.report import of_preferences, sides_plot


def test_both_answers_are_drawn_where_there_are_some() -> None:
    rows = [
        {
            "event": "validation",
            "step": step,
            "loss": 0.7,
            "chosen": -30.0 - step,
            "rejected": -31.0,
            "margin": 0.1,
        }
        for step in (0, 5, 10)
    ]
    data = ReportData(title="run", metrics=rows)
    found = of_preferences(data, 7.6, 4.6)
    assert len(found["sides_plots"]) == 2 and "sides-wide" in found["sides_plots"][0]
    for axes in (sides_plot(data, 7.6).axes[0],):
        lines = {str(line.get_label()): list(line.get_ydata()) for line in axes.get_lines()}
        assert lines == {"chosen": [-30.0, -35.0, -40.0], "rejected": [-31.0] * 3}
    assert of_preferences(ReportData(title="run", metrics=[]), 7.6, 4.6)["sides_plots"] == []
