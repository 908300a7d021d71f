"""The line that is drawn in place fits any width, says one time left, and breaks no word."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from octavo.util import terminal
from octavo.util.terminal import Line, cuts, fitted

NOTE = "step 500/4000  loss 1.2345  12,345 tokens/s"


@given(st.integers(1, 200), st.sampled_from(["", NOTE, "3 of 1,000 stories, yield 96%, 4 in flight"]))
def test_it_always_fits(columns: int, note: str) -> None:
    before, bar, after = fitted("training", 0.125, note, "3 min left", columns)
    assert len(before) + bar + len(after) + bool(before) + bool(bar and after) <= columns
    if columns >= 40:
        assert bar >= terminal.BAR and after.endswith("3 min left") and after.startswith(" 12 %")


def test_the_bar_takes_the_room_that_is_left() -> None:
    bars = [fitted("training", 0.5, NOTE, "3 min left", columns)[1] for columns in (100, 120, 200)]
    assert [bar - bars[0] for bar in bars] == [0, 20, 100]


def test_what_is_left_out_first() -> None:
    seen = [fitted("training", 0.5, NOTE, "3 min left", columns) for columns in (100, 77, 70, 40)]
    assert [(before, after) for before, _, after in seen] == [
        ("training", f" 50 %  {NOTE}  3 min left"),
        ("", f" 50 %  {NOTE}  3 min left"),
        ("", " 50 %  step 500/4000  loss 1.2345  3 min left"),
        ("", " 50 %  3 min left"),
    ]


def test_a_note_is_cut_between_its_parts() -> None:
    assert list(cuts("1,000 of 2,000, yield 5%  end")) == [
        "1,000 of 2,000, yield 5%  end",
        "1,000 of 2,000, yield 5%",
        "1,000 of 2,000",
    ]


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_one_line_that_leaves_room_for_the_echo_of_ctrl_c(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    line = Line("training", 4000)
    for step in range(1, 60):
        now[0] += 1
        line.move(step, f"step {step}/4000  loss 1.2345  12,345 tokens/s \x07")
    stream = io.StringIO()
    Console(file=stream, width=columns, force_terminal=True, color_system=None).print(line)
    (drawn,) = stream.getvalue().splitlines()
    assert len(drawn.rstrip()) <= columns - 3
    assert "\x07" not in drawn
    if columns >= 40:
        assert drawn.count(" left") == 1 and "66 min left" in drawn


def test_the_time_left_follows_the_pace_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    line = Line("reading", 1000)
    line.move(100, "")  # a resume begins there
    assert line.left == ""
    for done in range(101, 120):
        now[0] += 1
        line.move(done, "")
    assert line.left == "15 min left"
    for done in range(120, 620, 4):
        now[0] += 1
        line.move(done, "")
    assert line.left == "2 min left"
    line.total = None
    assert line.left == ""


def test_of_work_with_a_known_end_the_share_is_that_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    line, seen = Line("training", 400), []
    for total in (400, 90, 1000, 200):  # how many parts fit changes on the way
        line.total, line.ends = total, 140.0
        now[0] += 10
        line.move(30, "")
        seen.append(line.share)
    assert seen == [0.25, 0.5, 0.75, 1.0]
    line.ends = None
    assert line.share == 30 / 200
    line.total = None
    assert line.share is None
