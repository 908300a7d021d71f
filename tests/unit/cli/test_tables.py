"""Tables of verbs: what is too wide for a terminal is broken over lines, and nothing of it is lost."""

from __future__ import annotations

import pytest

from octavo.cli.common import fold, print_table

LONG = "corpus.paths: ['/texts/a/very/long/way/to/the/first.txt', '/texts/another/way/to/the/second.txt']"


@pytest.mark.parametrize("runs", [2, 3])
def test_a_folded_table_fits_and_keeps_every_letter(runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("corpus.paths", *[f"{LONG} {number}" for number in range(runs)]), ("seed", *"123"[:runs])]
    print_table(rows, head=("", *[f"run-{number}" for number in range(runs)]), folded=True)
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    folded = fold(rows, 80)
    for column in range(1 + runs):
        wanted = "".join(row[column] for row in rows).replace(" ", "")
        assert "".join(row[column] for row in folded).replace(" ", "") == wanted


def test_many_runs_stand_in_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("training.steps", *[f"a value of words {number}" for number in range(9)])]
    print_table(rows, folded=True)
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80 and "\n\n" in told


def test_what_fits_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("a", "1"), ("bb", "22")], folded=True)
    assert capsys.readouterr().out == "a    1\nbb  22\n"
