"""Series to forecast: read as the run reads its own, with the columns that its model knows."""

from __future__ import annotations

from pathlib import Path

from octavo.config import check
from octavo.tasks.forecast.dataset import Columns
from octavo.tasks.forecast.evaluate import new_split
from octavo.util.terminal import Console


def test_a_run_that_left_columns_out_forecasts(tmp_path: Path) -> None:
    """`corpus.without` of a run and the channels of its model were refused as naming the columns twice."""
    path = tmp_path / "a.csv"
    path.write_text("day,x,y,z\n" + "\n".join(f"monday,{i},{i * i},7" for i in range(9)), encoding="utf-8")
    recipe = check(
        {
            "corpus": {"kind": "series", "paths": [str(path)], "without": ["day", "z"]},
            "batches": "series",
            "objective": "forecast",
            "model": {"input": "linear", "output": "gaussian"},
        }
    )
    found = new_split(
        recipe, Columns(channels=("x", "y"), covariates=(), rate=None), str(path), Console(quiet=True)
    )
    assert found.splits["text"].tokens[:9].tolist() == [[i, i * i] for i in range(9)]
