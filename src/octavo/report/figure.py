"""A figure that a notebook shows, whether or not it knows matplotlib."""

from __future__ import annotations

import io
import re
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.text import Text

from octavo.util.terminal import shown

STYLE = {
    "svg.hashsalt": "octavo",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "text.parse_math": False,
}


class Plot(Figure):
    """A matplotlib figure in the reports' style. The same numbers give the same bytes."""

    def __init__(self, width: float, height: float, *, paper: str) -> None:
        super().__init__(figsize=(width, height), facecolor=paper)
        FigureCanvasSVG(self)

    def svg(self) -> str:
        """The figure as an SVG document without dates."""
        target = io.StringIO()
        with rc_context(STYLE):
            self.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
        text = re.sub(r"\s*<metadata>.*?</metadata>|<!DOCTYPE.*?>\s*", "", target.getvalue(), flags=re.DOTALL)
        return shown(text)  # XML has no control characters

    def tight_layout(self, **options: Any) -> None:
        """Fit the axes to their labels, whose size it measures."""
        self._plain()
        super().tight_layout(**options)

    def draw(self, renderer: Any) -> None:
        self._plain()
        super().draw(renderer)

    def _plain(self) -> None:
        for text in self.findobj(Text):
            text.set_parse_math(False)  # a $ in a name is a $

    def _repr_svg_(self) -> str:
        return self.svg()
