"""What is read back from disk is of its shape, or an error in words."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from octavo.errors import CheckpointError
from octavo.util.records import (
    OPTIONAL,
    Count,
    Number,
    Record,
    json_text,
    parse_json,
    plain,
    read_record,
    read_rows,
)


class Point(Record):
    """A shape."""

    step: Count
    loss: Number | None = None


WRONG = (
    b"",
    b"null",
    b"5",
    b"[]",
    b"{}",
    b'{"step": null}',
    b'{"step": "5"}',
    b'{"step": -1}',
    b'{"step": 5.5}',
    b'{"step": true}',
    b'{"step": 1' + b"0" * 400 + b"}",
    b'{"step": 5, "loss": NaN}',
    b'{"step": 5, "loss": 1e999}',
    b'{"step": 5, "name": "\\ud800"}',
    b'{"step": 5, "name": "\xff"}',
    b'{"step": 5, "deep": ' + b"[" * 100_000,
    b'{"step": 5',
)


@pytest.mark.parametrize("data", WRONG)
def test_wrong_files_are_said_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(
        CheckpointError, match=r"a\.json cannot be read \(.+\); the run is damaged\.$"
    ) as raised:
        read_record(tmp_path / "a.json", Point, of="the run")
    assert "\n" not in raised.value.what


def test_missing_files_and_folders_are_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"a\.json is missing; the checkpoint is incomplete"):
        read_record(tmp_path / "a.json", Point)
    with pytest.raises(CheckpointError, match="Is a directory"):
        read_record(tmp_path, Point)


def test_what_is_read_stays_as_it_was_written() -> None:
    data = {"more": [1, {"b": 2.5}], "step": 5, "loss": 0.1 + 0.2}
    found = parse_json(json.dumps(data), Point)
    assert list(found.items()) == list(data.items())


def test_rows_of_another_shape_are_passed_over(tmp_path: Path) -> None:
    good = [{"step": number} for number in range(len(WRONG))]
    lines = [
        line for pair in zip(WRONG, (json.dumps(row).encode() for row in good), strict=True) for line in pair
    ]
    (tmp_path / "rows").write_bytes(b"\n".join(lines) + b'\n{"step": 99')
    assert read_rows(tmp_path / "rows", Point) == good
    assert read_rows(tmp_path / "nothing", Point) == []


def test_no_json_of_ours_holds_what_json_has_not() -> None:
    data = {"loss": math.nan, "rows": [1.5, -math.inf, (np.float64("inf"), 2)], "text": "NaN", "count": 3}
    text = json_text(data, indent=1, ensure_ascii=False)
    assert json.loads(text) == {"loss": None, "rows": [1.5, None, [None, 2]], "text": "NaN", "count": 3}
    finite = {"a": [1, 2.5, "é"], "b": None}
    assert json_text(finite, sort_keys=True) == json.dumps(finite, sort_keys=True)


@dataclass(frozen=True)
class Measured:
    """A figure with one that there may not be."""

    loss: float | None
    ahead: float | None = field(default=None, metadata=OPTIONAL)


def test_an_optional_key_stands_where_it_has_a_value() -> None:
    assert plain(Measured(None)) == {"loss": None}
    assert plain([Measured(1.0, 0.5)]) == [{"loss": 1.0, "ahead": 0.5}]
