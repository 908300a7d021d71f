"""Tables of numbers: what is read, and which file and line an error names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.config import check
from octavo.corpus.documents import Report
from octavo.errors import ConfigError, CorpusError
from octavo.tasks.forecast.source import Series, TableSeries, alike, odd_numbers, told_apart

WHOLE = "t,x,y,speed\n0,1,2,5\n1,1.5,NaN,5\n2,-2e1,,5\n3,0,7,5\n"


def source(*paths: Path, report: Report = lambda sentence: None, **options: Any) -> TableSeries:
    corpus = {"kind": "series", "paths": [str(path) for path in paths], **options}
    model = {"input": "linear", "output": "gaussian"}
    recipe = check({"corpus": corpus, "batches": "series", "objective": "forecast", "model": model})
    return recipe.corpus.build(report=report)


def read(path: Path, content: str | bytes, **options: Any) -> list[Series]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(source(path, **options).series())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", WHOLE),
        ("a.csv", "﻿" + WHOLE.replace("\n", "\r\n")),
        ("a.csv", WHOLE.replace(",", ";")),
        ("a.tsv", WHOLE.replace(",", "\t")),
        ("a.txt", WHOLE.replace(",", "\t")),
        ("a.dat", "# a comment\n\n" + WHOLE.replace(",,", ",NA,").replace(",", "  ")),
    ],
)
def test_text_in_all_its_forms(tmp_path: Path, name: str, content: str) -> None:
    (found,) = read(tmp_path / name, content, channels=["x", "y"], covariates=["speed"])
    expected = [[1, 2, 5], [1.5, np.nan, 5], [-20, np.nan, 5], [0, 7, 5]]
    np.testing.assert_array_equal(found.rows, np.array(expected, np.float32))
    assert (found.name, found.person, found.rows.dtype) == (name, "a", np.float32)


def test_without_names_columns_have_numbers(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a.csv", "1,2\n3,4\n", channels=["c2"])
    assert found.rows.tolist() == [[2], [4]]


def test_parquet_and_npz_are_the_same_table(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1.0, None, 3.0], "n": [1, 2, 3]}), tmp_path / "a.parquet")
    np.savez(tmp_path / "b.npz", x=np.array([1, np.nan, 3]), n=np.array([1, 2, 3]))
    np.savez(tmp_path / "c.npz", table=np.array([[1, 1], [np.nan, 2], [3, 3]]), columns=np.array(["x", "n"]))
    found = [series.rows for series in source(tmp_path).series()]
    assert len(found) == 3 and found[0].shape == (3, 2)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_persons_from_the_name_or_a_column(tmp_path: Path) -> None:
    (tmp_path / "S01run25.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "S02run35.csv").write_text("x\n3\n4\n", encoding="utf-8")
    pattern = r"(?P<person>S\d+)run(?P<speed>\d\d)"
    found = list(source(tmp_path, pattern=pattern, channels=["x"], covariates=["speed"]).series())
    assert [(s.person, s.rows.tolist()) for s in found] == [
        ("S01", [[1, 25], [2, 25]]),
        ("S02", [[3, 35], [4, 35]]),
    ]
    together = "who,x\nann,1\nann,2\nbo,3\nann,4\n"
    found = read(tmp_path / "together.csv", together, person="who")
    assert [(s.person, s.rows.ravel().tolist()) for s in found] == [
        ("ann", [1, 2]),
        ("bo", [3]),
        ("ann", [4]),
    ]


def test_persons_whose_rows_are_mixed_are_no_series(tmp_path: Path) -> None:
    mixed = "who,x\n" + "".join(f"{('ann', 'bo')[row % 2]},{row}\n" for row in range(20))
    with pytest.raises(
        CorpusError, match=r"mixed\.csv, line 3: persons take turns from row to row .19 times in 20 rows"
    ) as error:
        read(tmp_path / "mixed.csv", mixed, person="who")
    assert "sort the table by 'who'" in str(error.value)


def test_files_of_one_name_are_told_apart_and_are_of_different_people(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "two" / "b.csv").write_text("x\n1\n2\n", encoding="utf-8")
    found = list(source(tmp_path).series())
    names = [str(tmp_path / "one" / "a.csv"), str(tmp_path / "two" / "a.csv"), "b.csv"]
    assert [series.name for series in found] == names
    assert [series.person for series in found] == ["one/a", "two/a", "b"]


@pytest.mark.parametrize(
    ("name", "line", "parted"),
    [("a.tsv", "x,y", "a .tsv file by tabs"), ("a.csv", "x|y", "semicolons or spaces")],
)
def test_a_wrong_delimiter_is_said(name: str, line: str, parted: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"{name}, line 3 is a single cell, '{re.escape(line)}'") as error:
        read(tmp_path / name, f"# by hand\n\n{line}\n1{line[1]}2\n", channels=["x"])
    assert parted in str(error.value)


def test_gaps_in_time_become_missing_rows(tmp_path: Path) -> None:
    (found,) = read(tmp_path / "a.csv", "t,x\n0,1\n1,2\n2,3\n5,6\n6,7\n", time="t")
    np.testing.assert_array_equal(found.rows.ravel(), [1, 2, 3, np.nan, np.nan, 6, 7])
    parts = read(tmp_path / "a.csv", "t,x\n0,1\n1,2\n2,3\n500000,6\n500001,7\n", time="t")
    assert [series.rows.ravel().tolist() for series in parts] == [[1, 2, 3], [6, 7]]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("x,y\n1,2\n3,four\n", {}, r"a\.csv, line 3: column 'y' holds 'four', which is no number"),
        ("x,y\n1,2\n3,1_0\n", {}, r"line 3: column 'y' holds '1_0'"),
        (
            "x;y\n1,5;2\n",
            {},
            r"line 2: column 'x' holds '1,5', which is no number \(with a decimal comma\?\)",
        ),
        ("x,y\n1,2\n\n3,inf\n", {}, r"a\.csv, line 4: column 'y' is infinite"),
        ("x,y\n1,2\n3,1e300\n", {}, r"line 3: column 'y' is infinite, or too large"),
        ("x,y\n1,2\n3\n", {}, r"line 3: 1 cell, where line 1 has 2"),
        ('x,y\n1,2\n3,"4\n5,6\n', {}, r"a\.csv, line 3 has cells that cannot be told apart"),
        (
            "x,y\n1,2\n3," + "4" * 140_000 + "\n",
            {},
            r"a\.csv, line 3 has a cell of 140,000 characters",
        ),
        ("# one\nx,x\n1,2\n", {}, r"line 2: two columns are called 'x'"),
        ("x,y\n", {}, "nothing under it"),
        ("", {}, "is empty"),
        ("x,y\n1,2\n", {"channels": ["z"]}, "no column 'z'; it has 'x', 'y'"),
        ("x,y\n1,2\n", {"pattern": "(?P<person>§)"}, "does not fit corpus.pattern"),
        ("x,y\n1,2\n", {"channels": ["x"], "covariates": ["mass"]}, "no column 'mass'"),
        ("x,y\n1,2\n", {"channels": ["x"], "covariates": ["x"]}, "a channel and a covariate"),
        ("t,x\n0,1\n2,1\n1,1\n", {"time": "t"}, "line 4: the time 't' is missing, or does not increase"),
        ("who,x\n,1\n", {"person": "who"}, "line 2: nobody stands in 'who'"),
        (b"x\n\xff\n", {}, "no text in UTF-8"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(CorpusError, match=said) as error:
        read(tmp_path / "a.csv", content, **options)
    assert "a.csv" in str(error.value) or "a channel" in said


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no file or folder"):
        source(tmp_path / "none.csv")
    with pytest.raises(CorpusError, match="There is no table in"):
        source(tmp_path)
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(CorpusError, match="no table that Octavo reads"):
        source(tmp_path / "a.pdf")
    for name in ("a.npz", "a.parquet"):
        (tmp_path / name).write_bytes(b"nothing")
        with pytest.raises(CorpusError, match=r"that can be read|plain arrays"):
            source(tmp_path / name)
    np.savez(tmp_path / "b.npz", x=np.ones(3), y=np.ones(2))
    with pytest.raises(CorpusError, match="not of one length"):
        source(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", x=np.array([object()]))
    with pytest.raises(CorpusError, match="plain arrays"):
        source(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"corpus": "series"}, "corpus=series gives numbers, and the model reads tokens"),
        ({"corpus": {"kind": "series", "pattern": "("}}, "no regular expression"),
        ({"batches": "series"}, "batches=series: they hold rows of numbers"),
        ({"objective": "forecast"}, "objective=forecast is about rows of numbers"),
        ({"model": {"input": "linear", "output": "gaussian"}}, "reads rows of numbers"),
    ],
)
def test_numbers_and_text_do_not_mix(tree: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(tree)


def test_namesakes_at_any_depth() -> None:
    files = [Path(name) for name in ("/d/a/x/w.csv", "/d/b/x/w.csv", "/d/b/x/w.txt", "/w.csv", "/v.csv")]
    names = told_apart(files)
    assert names[files[0]] == "a/x/w" and names[files[4]] == "v" and names[files[1]] == names[files[2]]


def test_a_row_may_begin_with_a_hash_and_comments_may_stand_anywhere(tmp_path: Path) -> None:
    content = "# of two\nwho,x\n#0,1\n#0,2\n# a gap\n\nx,9\n"
    found = read(tmp_path / "a.csv", content, person="who")
    assert [(s.person, s.rows.ravel().tolist()) for s in found] == [("#0", [1, 2]), ("x", [9])]
    assert read(tmp_path / "b.csv", "x\n1\n#end\n2\n")[0].rows.ravel().tolist() == [1, 2]


@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ","), ("a.txt", "\t")])
def test_a_row_of_empty_cells_is_a_row(tmp_path: Path, name: str, mark: str) -> None:
    content = "\n".join(f"{a}{mark}{b}" for a, b in (("a", "b"), ("1", "2"), ("", ""), ("3", "4"))) + "\n\n"
    (one,) = read(tmp_path / name, content)
    assert one.rows.shape == (3, 2) and np.isnan(one.rows[1]).all()


def test_nobody_in_a_parquet_file_is_nobody(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow, the extra 'data'")
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"who": ["a", "a", None], "v": [1.0, 2.0, 3.0]}), tmp_path / "a.parquet"
    )
    with pytest.raises(CorpusError, match="nobody stands in 'who'"):
        list(source(tmp_path / "a.parquet", person="who").series())


@pytest.mark.parametrize(
    ("first", "step", "lost"),
    [(4_500_000, 0.1, True), (1_700_000_000, 1, True), (4_500_000, 10, False), (0, 1e-30, False)],
)
def test_numbers_that_32_bits_cannot_tell_apart_are_refused(
    tmp_path: Path, first: float, step: float, lost: bool
) -> None:
    content = "x\n" + "".join(f"{first + step * row!r}\n" for row in [0, 3, 2, 5, 4, 4])
    if lost:
        with pytest.raises(CorpusError, match=r"a\.csv: the numbers of 'x' change by .* 32 bits miss them"):
            read(tmp_path / "a.csv", content)
    else:
        assert len(np.unique(read(tmp_path / "a.csv", content)[0].rows)) == 5


def test_a_jump_in_time_may_be_of_any_length(tmp_path: Path) -> None:
    parts = read(tmp_path / "a.csv", "t,x\n0,1\n1,2\n2,3\n3,4\n1e30,6\n2e30,7\n", time="t")
    assert [series.rows.ravel().tolist() for series in parts] == [[1, 2, 3, 4], [6], [7]]


def written(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"x\n{number}\n{number + 2}\n{number}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("pattern", "names", "persons"),
    [
        (r"(?P<person>S\d+)", ("S01/trial1.csv", "S02/trial1.csv"), ["S01", "S02"]),
        (r"(?P<person>S\d+)", ("S1/S7.csv", "S1/S8.csv"), ["S7", "S8"]),
        (r"(?P<person>[^/]+)/[^/]+/[^/]+$", ("S01/walk/1.csv", "S02/run/1.csv"), ["S01", "S02"]),
        (r"^(?P<person>[a-z]+)_", ("x_y/ann_1.csv", "x_y/bo_1.csv"), ["ann", "bo"]),
    ],
)
def test_the_pattern_finds_persons_in_the_name_and_then_in_the_nearest_folders(
    tmp_path: Path, pattern: str, names: tuple[str, ...], persons: list[str]
) -> None:
    found = source(written(tmp_path / "S99", *names), pattern=pattern).series()
    assert [series.person for series in found] == persons


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (("S01/trial1.csv", "S01/trial2.csv", "S02/trial1.csv"), ["S01", "S01", "S02"]),
        (("S01/walk.csv", "S01/jump.csv", "S02/run.csv"), ["S01", "S01", "S02"]),
        (("ann/1.csv", "ann/2.csv", "bo/1.csv"), ["ann", "ann", "bo"]),
        (("sub-1/day1/a.csv", "sub-1/day2/b.csv", "sub-2/day1/c.csv"), ["sub-1", "sub-1", "sub-2"]),
        (("RBDS1runT25.csv", "RBDS1runT35.csv", "RBDS2runT25.csv"), ["RBDS1", "RBDS1", "RBDS2"]),
        (("ann_1.csv", "ann_2.csv", "bo_1.csv"), ["ann", "ann", "bo"]),
        (("walk_S_01.csv", "run_S_01.csv", "walk_S_02.csv"), ["S_01", "S_01", "S_02"]),
        (("trial_1.csv", "trial_2.csv", "trial_3.csv"), None),
        (("oslo.csv", "rome.csv", "bern.csv"), None),
        (("2024/may.csv", "2024/june.csv", "2025/july.csv"), None),
        (("S01.csv", "S02.csv"), None),
    ],
)
def test_names_of_files_suggest_persons(
    tmp_path: Path, names: tuple[str, ...], groups: list[str] | None
) -> None:
    written(tmp_path, *names)
    plain = source(*(tmp_path / name for name in names))
    suggested = plain.suggested_persons()
    if groups is None or suggested is None:
        assert suggested is None and groups is None
        return
    assert [suggested.of[series.person] for series in plain.series()] == groups
    told = source(*(tmp_path / name for name in names), pattern=suggested.pattern)
    assert [series.person for series in told.series()] == groups and told.suggested_persons() is None


def test_names_that_may_be_one_persons() -> None:
    names = ["ana", "ANA", "Ana", "1", "01", "1.0", "12", "1-2", "1.5", "S 01", "s1", "bo", "bob"]
    assert alike(names) == [["01", "1", "1.0"], ["ANA", "Ana", "ana"], ["S 01", "s1"]]


def heard(path: Path, content: str, **options: Any) -> tuple[np.ndarray, list[str]]:
    """The rows of a table, and what is said of it."""
    said: list[str] = []
    return read(path, content, report=said.append, **options)[0].rows, said


def waves(rows: int = 200) -> list[list[float]]:
    return [[round(np.sin(row / 7) * 3 + 1, 3), round(np.cos(row / 5), 3)] for row in range(rows)]


def as_csv(rows: list[list[float]], head: str = "x,y\n") -> str:
    return head + "".join(",".join(repr(float(number)) for number in row) + "\n" for row in rows)


@pytest.mark.parametrize("code", [-9999.0, -999.0, 9999.0, -99.99, 32767.0])
def test_a_code_for_missing_numbers_is_said_and_can_be_named(tmp_path: Path, code: float) -> None:
    rows = waves()
    for row in range(49, 200, 50):
        rows[row][1] = code
    found, said = heard(tmp_path / "a.csv", as_csv(rows))
    assert found[49, 1] == np.float32(code) and len(said) == 1
    where = f"{code:g} in {tmp_path / 'a.csv'}, line 51, the first of 4 (the others: -1 to 1)"
    assert said[0].startswith(f"column 'y' holds what looks like a code for missing numbers, {where}")
    assert said[0].endswith(f"'corpus.missing=[{code:g}]'")
    found, said = heard(tmp_path / "a.csv", as_csv(rows), missing=code)
    assert np.flatnonzero(np.isnan(found[:, 1])).tolist() == [49, 99, 149, 199] and not said


def test_absurd_numbers_are_said_with_row_and_column(tmp_path: Path) -> None:
    rows = waves()
    rows[7][0], rows[30][1], rows[31][1] = 1e30, -9999, -9999
    _, said = heard(tmp_path / "a.csv", as_csv(rows))
    assert len(said) == 2 and "column 'x' holds an absurd number, 1e+30 in" in said[0]
    assert "a.csv, line 9 (the others: -2 to 4)" in said[0] and "column 'y'" in said[1] and "code" in said[1]


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(0).standard_t(2, 5000),  # heavy tails
        np.exp(2 * np.random.default_rng(1).normal(size=5000)),
        np.arange(0, 12_000, 7.0),
        np.tile([0.0, 0.0, 0.0, 1.0], 500),
        np.repeat([99.0, 999.0, 500.0], 100),
        np.full(100, 9999.0),
        np.append(np.zeros(10), 1e9),  # too few to say
        np.full(50, np.nan),
    ],
)
def test_ordinary_numbers_are_neither_codes_nor_absurd(column: np.ndarray) -> None:
    codes, absurd = odd_numbers(column)
    assert codes == {} and not len(absurd)


def test_columns_are_left_out_by_name(tmp_path: Path) -> None:
    content = "day,x,y\nmonday,1,2\ntuesday,3,5\n"
    with pytest.raises(CorpusError, match="column 'day' holds 'monday'") as error:
        read(tmp_path / "a.csv", content)
    assert "corpus.without" in str(error.value)
    assert read(tmp_path / "a.csv", content, without="day")[0].rows.tolist() == [[1, 2], [3, 5]]
    with pytest.raises(CorpusError, match="no column 'u', 'v'"):
        read(tmp_path / "a.csv", content, without=["u", "day", "v"])
    with pytest.raises(CorpusError, match=r"corpus\.without has nothing to leave out"):
        read(tmp_path / "a.csv", content, without=["day"], channels=["x"])


def test_a_column_that_only_a_later_file_has_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n2\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n2,4\n", encoding="utf-8")
    said: list[str] = []
    list(source(tmp_path, report=said.append).series())
    where = f"column 'z' of {tmp_path / 'b.csv'} is not in {tmp_path / 'a.csv'}, whose columns are taken"
    assert said == [f"{where}, and is left out"]
    said.clear()
    list(source(tmp_path, report=said.append, channels=["x"]).series())
    assert said == []


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("a.csv", "# x,y\n1,2\n3,4\n", ("x", "y")),
        ("a.txt", "# by np.savetxt\n# x y\n1.0e+00 2.0e+00\n3 4\n", ("x", "y")),
        ("a.csv", "# by hand\n1,2\n3,4\n", ("c1", "c2")),
        ("a.csv", "# 1,2\n1,2\n3,4\n", ("c1", "c2")),
        ("a.csv", "# x,x\n1,2\n3,4\n", ("c1", "c2")),
        ("a.csv", "# a,b\nx,y\n1,2\n3,4\n", ("x", "y")),
    ],
)
def test_a_comment_above_the_numbers_may_name_the_columns(
    tmp_path: Path, name: str, content: str, names: tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    said: list[str] = []
    made = source(tmp_path / name, report=said.append)
    (found,) = made.series()
    assert made.channels == names and found.rows.tolist() == [[1, 2], [3, 4]]
    commented = names == ("x", "y") and "a,b" not in content
    assert [("names the columns: 'x', 'y'" in sentence) for sentence in said] == [True] * commented


@pytest.mark.parametrize(
    ("step", "rate", "said"),
    [
        (0.01, 100, None),
        (10, 100, None),  # milliseconds
        (1, 100, None),  # rows
        (1 / 60, 1, None),  # minutes
        (
            0.005,
            100,
            "by its times there are 200 rows a second, if these are seconds, and corpus.rate says 100",
        ),
    ],
)
def test_times_that_contradict_the_rate_are_said(
    tmp_path: Path, step: float, rate: float, said: str | None
) -> None:
    content = as_csv([[step * row, float(row % 3)] for row in range(40)], "t,x\n")
    _, sentences = heard(tmp_path / "a.csv", content, time="t", rate=rate)
    assert [sentence.removeprefix("a.csv: ") for sentence in sentences] == ([said] if said else [])


def test_rows_that_come_too_fast_are_said(tmp_path: Path) -> None:
    content = "t,x\n0,1\n1,2\n1.2,9\n2,3\n3,4\n4,5\n5,6\n"
    rows, said = heard(tmp_path / "a.csv", content, time="t")
    assert len(rows) == 7 and len(said) == 1
    assert "1 rows come after less than half of the usual step of 1, the first in line 4" in said[0]


def test_epoch_seconds_and_noise_on_a_large_number_are_refused_by_column(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=50)
    coded = np.where(np.arange(50) % 10 == 9, -9999, 1e9 + noise)
    for name, column in (("noise", 1e9 + noise), ("clock", 1.7e9 + np.arange(50.0)), ("coded", coded)):
        with pytest.raises(CorpusError, match=f"the numbers of '{name}' change by"):
            read(
                tmp_path / "a.csv",
                as_csv([[0.5 * row, value] for row, value in enumerate(column)], f"x,{name}\n"),
            )
