"""A source with steps: order, counts, portions of long documents, bounded memory, the dataset's identity."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from octavo.config import cleaning_steps, load_recipe
from octavo.corpus.cleaning import Cleaned, cleaned
from octavo.corpus.cleaning.cleaned import in_portions
from octavo.data import prepare
from octavo.tokenizers.config import Char
from unit.corpus.cleaning.common import Result, Texts


def test_steps_run_in_order_and_are_counted() -> None:
    result = Result(["case", "exact_duplicates", {"kind": "length", "min_words": 1}], "A", "a", "!", "b")
    assert result.texts == ["a", "b"]
    counted = result.source.cleaning()
    assert list(counted) == ["1 case", "2 exact_duplicates", "3 length"]
    assert [(t["in"], t["out"], t["changed"], t["dropped"]) for t in counted.values()] == [
        (4, 4, 1, 0),
        (4, 3, 0, 1),
        (3, 2, 0, 1),
    ]
    assert result.said[1].startswith(
        "cleaning 2 exact_duplicates: 4 in, 0 changed, 1 dropped; for example document 2"
    )
    result.read()
    assert len(result.said) == 3, "said once, whatever the passes"


def test_what_is_empty_afterwards_is_left_out() -> None:
    assert Result(["punctuation"], "!!!", " — ", "a").texts == ["a"]


def test_examples_stay_few() -> None:
    result = Result([{"kind": "length", "min_words": 2}], *["one"] * 50)
    assert len(result.tally["examples"]) == 3 and result.tally["reasons"] == {"too short": 50}


@pytest.mark.parametrize("piece", [1, 7, 1000])
@pytest.mark.parametrize("text", ["one two\nthree four\nfive", "x" * 50, "one two three four five six", ""])
def test_portions_are_the_text(text: str, piece: int) -> None:
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    portions = list(in_portions(pieces, longest=12))
    assert "".join(portions) == text
    assert all(len(portion) <= 12 for portion in portions)
    if "\n" in text:
        assert portions[0] == "one two\n"


def test_a_long_document_is_cleaned_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaned.in_portions, "__defaults__", (1 << 16,))
    line = "Some Words in a line.\n"

    class Long(Texts):
        def documents(self):
            from octavo.corpus import Document

            yield Document("long", (line * 500 for _ in range(1000)))

    steps = load_recipe({"cleaning": ["unicode", "control", "case"]}).cleaning
    tracemalloc.start()
    [document] = Cleaned(Long(), steps, report=lambda sentence: None).documents()
    length = sum(len(piece) for piece in document.pieces)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == len(line) * 500 * 1000
    assert peak < 8 << 20


@pytest.mark.parametrize("steps", ["plain", "pidgin"])
def test_portions_of_a_document_come_together_as_if_it_had_been_whole(
    steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"Line {n} has a few words.\n" + "\n" * (n % 5 == 0) for n in range(100))
    [whole] = Result(cleaning_steps(steps), text).texts
    monkeypatch.setattr(cleaned.in_portions, "__defaults__", (200,))
    assert Result(cleaning_steps(steps), text).texts == [whole]


def test_a_dataset_knows_how_its_text_was_cleaned(tmp_path: Path) -> None:
    texts = [f"Story {number} about a bird." for number in range(40)]
    made = {}
    for steps in ([], ["unicode"], ["case"], ["unicode"]):
        source = Cleaned(
            Texts(*texts), load_recipe({"cleaning": steps}).cleaning, report=lambda sentence: None
        )
        dataset = prepare(source, Char(), cache=tmp_path)
        made.setdefault(str(steps), []).append(dataset)
    assert len({each[0].folder for each in made.values()}) == 3
    first, again = made["['unicode']"]
    assert first.folder == again.folder
    assert first.manifest["cleaning"]["1 unicode"] == {
        "settings": {"form": "NFC"}, "in": 40, "out": 40, "changed": 0, "dropped": 0,
    }  # fmt: skip
    assert "cleaning" not in made["[]"][0].manifest
