"""The memorization meter says what a naive scan says, wherever the chunks of the training text end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from octavo.evaluation import memorization
from octavo.evaluation.memorization import copying

LENGTHS = (2, 3, 5, 9)
TEXTS = st.lists(st.text("abé\n𝄞", max_size=25), max_size=4)


def naive(texts: list[str], train: str) -> tuple[dict[int, float], int]:
    """Shares and the longest run, by trying everything."""
    shares, longest, total = {}, 0, sum(map(len, texts))
    for length in LENGTHS:
        covered = 0
        for text in texts:
            marks = [False] * len(text)
            for start in range(len(text) - length + 1):
                if text[start : start + length] in train:
                    marks[start : start + length] = [True] * length
            covered += sum(marks)
        shares[length] = covered / total if total else 0.0
    for text in texts:
        for start in range(len(text)):
            for stop in range(start + 1, len(text) + 1):
                if text[start:stop] in train:
                    longest = max(longest, stop - start)
    return shares, longest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(train=st.text("abé\n𝄞", max_size=80), texts=TEXTS, control=TEXTS, chunk=st.integers(1, 60))
def test_it_finds_what_a_naive_scan_finds(
    train: str,
    texts: list[str],
    control: list[str],
    chunk: int,
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(train.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memorization, "CHUNK", chunk)
        found, searched = copying(
            {"generated": texts, "held out": control}, path, lengths=LENGTHS, limit=10_000
        )
    assert searched == 1.0
    for name, group in (("generated", texts), ("held out", control)):
        shares, longest = naive(group, train)
        assert found[name].shares == pytest.approx(shares)
        if longest < min(LENGTHS):
            assert found[name].longest is None
            continue
        run = found[name].longest
        assert run is not None and run.length == longest
        assert any(run.text in text for text in group)
        assert train.encode()[run.byte :].startswith(run.text.encode())
        assert run.line == 1 + train.encode()[: run.byte].count(b"\n")


def test_text_learned_by_heart_is_copied_from_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("".join(f"Line {number} says {number * 7919 % 1000}.\n" for number in range(2000)))
    lines = path.read_text().splitlines(keepends=True)
    passage = "".join(lines[700:730])
    found, _ = copying({"generated": [passage], "none": ["Nothing 0f th1s k1nd."]}, path)
    assert set(found["generated"].shares.values()) == {1.0}
    run = found["generated"].longest
    assert run is not None and (run.length, run.line) == (len(passage), 701)
    assert run.text == passage[: memorization.SHOWN]
    assert found["none"].longest is None and not any(found["none"].shares.values())


def test_of_a_text_beyond_the_limit_a_part_is_searched_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memorization, "CHUNK", 100)
    path = tmp_path / "train.txt"
    path.write_text("".join(f"{number:09d}\n" for number in range(100)))  # ten chunks of ten lines
    inside, outside = "000000001\n000000002\n", "000000025\n000000026\n"
    found, searched = copying({"in": [inside], "out": [outside]}, path, limit=200)
    assert searched == pytest.approx(0.2)
    assert found["in"].shares[20] == 1.0
    assert found["out"].shares[20] == 0.0


def test_runs_do_not_reach_over_the_border_of_two_texts(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("the quick brown fox jumps")
    found, _ = copying({"x": ["the quick brow", "n fox jumps"]}, path)
    assert found["x"].longest is not None and found["x"].longest.length == 14
    assert found["x"].shares[20] == 0
    assert found["x"].by_text[10] == [1.0, 1.0]
