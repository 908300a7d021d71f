"""Steps that keep or drop documents: length, language, duplicates, the closed vocabulary, personal data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import load_recipe, parse_yaml, to_yaml
from octavo.corpus.cleaning.closed import Closest, distance
from octavo.corpus.cleaning.personal import iban, luhn
from octavo.errors import ConfigError, CorpusError
from unit.corpus.cleaning.common import Result

STORY = "one day a small bird flew over the big green hill and saw a river with many fish in it and was glad"


def test_length() -> None:
    result = Result(
        [{"kind": "length", "min_words": 2, "max_characters": 9}], "one", "one two", "one two three", "a, b!"
    )
    assert result.texts == ["one two", "a, b!"]
    assert result.tally["reasons"] == {"too short": 1, "too long": 1}
    assert result.tally["examples"] == [
        "document 1 (texts): too short: 1 words, at least 2 are asked for",
        "document 3 (texts): too long: 13 characters, at most 9 are asked for",
    ]


def test_language() -> None:
    pytest.importorskip("py3langid")
    german = "Es war einmal ein kleiner Vogel, der über den großen Hügel flog und einen Fluss sah."
    result = Result(
        [{"kind": "language", "keep": "de", "among": ["en"], "certainty": 0.9}], STORY, german, "12 34"
    )
    assert result.texts == [german]
    assert result.tally["reasons"] == {"another language": 1, "language not certain": 1}
    with pytest.raises(ConfigError, match="no language xx"):
        Result([{"kind": "language", "keep": ["xx"]}], STORY)


def test_exact_duplicates() -> None:
    result = Result(["exact_duplicates"], "a b", "A b", "a  b\n", "a b", "c")
    assert result.texts == ["a b", "A b", "c"]
    assert result.tally["examples"][0] == "document 3 (texts): repeats an earlier document: document 1"
    assert Result([{"kind": "exact_duplicates", "ignoring": "case_and_marks"}], "a b.", "A b!").texts == [
        "a b."
    ]
    assert result.read() == result.texts, "a second pass begins anew"


def test_words_cut_otherwise_are_other_words() -> None:
    """Letters alone would make one text of these; only spaces and case, or marks, make no difference."""
    step = {"kind": "exact_duplicates", "ignoring": "case_and_marks"}
    texts = ["a nice day", "an ice day", "A nice, day!", "anice day"]
    assert Result([step], *texts).texts == [texts[0], texts[1], texts[3]]


def test_the_last_run_of_words_counts() -> None:
    pytest.importorskip("datasketch")
    step = {"kind": "near_duplicates", "likeness": 0.6, "words": 3}
    texts = ["the fox saw a dog", "the fox saw a cat", "the fox saw a dog"]
    assert Result([step], *texts).texts == texts[:2]


def test_near_duplicates() -> None:
    pytest.importorskip("datasketch")
    stories = [" ".join(f"{word}{number}" for word in STORY.split()) for number in range(20)]
    changed = stories[7].replace("river7", "lake7")
    result = Result([{"kind": "near_duplicates", "likeness": 0.5, "words": 3}], *stories, changed, stories[3])
    assert result.texts == stories
    assert result.tally["dropped"] == 2
    assert "like document 8" in result.tally["examples"][0]
    assert "100% like document 4" in result.tally["examples"][1]
    assert (
        Result([{"kind": "near_duplicates", "likeness": 0.95, "words": 3}], *stories, changed).texts[-1]
        == changed
    )


def test_the_closed_vocabulary_rejects_and_names_the_words() -> None:
    step = {"kind": "closed_vocabulary", "words": ["the", "cat", "sat", "don't"]}
    result = Result([step], "The cat sat.", "the dog, a dog sat", "don't sit")
    assert result.texts == ["The cat sat."]
    assert "outside the vocabulary: dog, a" in result.tally["examples"][0]
    assert Result([{**step, "ignore_case": False}], "The cat").texts == []


def test_a_list_with_marks_closes_the_marks() -> None:
    step = {"kind": "closed_vocabulary", "words": ["a", "."]}
    assert Result([step], "a.", "a!").texts == ["a."]


def test_repair_takes_the_closest_word() -> None:
    step = {
        "kind": "closed_vocabulary",
        "words": ["house", "horse", "the", "cats"],
        "unknown": "repair",
        "most": 2,
    }
    result = Result([step], "The hosue, catss", "the elephant", "hous hors cat")
    assert result.texts == ["The house, cats"]
    assert result.tally["found"] == {"words repaired": 2}
    assert result.tally["reasons"] == {
        "words with no close one in the vocabulary": 1,
        "too many words to repair": 1,
    }


@given(st.text("abc", max_size=6), st.lists(st.text("abc", min_size=1, max_size=6), max_size=8, unique=True))
def test_the_closest_word_is_the_one_of_a_search_through_all(word: str, words: list[str]) -> None:
    ranked = [(distance(word, other, 2), place) for place, other in enumerate(words)]
    best = min(ranked, default=(3, 0))
    if word:
        assert Closest(words, 2)(word) == (words[best[1]] if best[0] <= 2 else None)


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [("cat", "cat", 0), ("cat", "cart", 1), ("cat", "act", 1), ("cat", "dog", 3), ("", "ab", 2),
     ("kitten", "sitting", 3)],
)  # fmt: skip
def test_distance(one: str, two: str, apart: int) -> None:
    assert distance(one, two, 5) == distance(two, one, 5) == apart
    assert distance(one, two, 1) == min(apart, 2)


def test_a_word_list_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\ufeffthe\ncat\n\n", encoding="utf-8")
    assert Result([{"kind": "closed_vocabulary", "words": str(path)}], "the cat", "a cat").texts == [
        "the cat"
    ]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorpusError, match="it is not UTF-8 text"):
        Result([{"kind": "closed_vocabulary", "words": str(path)}], "a")
    with pytest.raises(CorpusError, match="No such file"):
        Result([{"kind": "closed_vocabulary", "words": str(tmp_path / "none")}], "a")


def test_a_word_list_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on elsewhere reads its stored recipe."""
    (tmp_path / "words.txt").write_text("the\ncat\n")
    monkeypatch.chdir(tmp_path)
    stored = to_yaml(load_recipe({"cleaning": [{"kind": "closed_vocabulary", "words": "words.txt"}]}))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    [step] = load_recipe(parse_yaml(stored, "stored")).cleaning
    assert step.build().clean("the cat", 1) == "the cat"


PRIVATE = (
    "Write to ada.l+x@mail.example.co.uk, call +49 170 1234567 or (555) 123-4567. Card 4111 1111 1111 1111, "
    "IBAN DE89 3704 0044 0532 0130 00, SSN 123-45-6789, server 192.168.0.17."
)


def test_personal_data_is_reported_only() -> None:
    result = Result(["personal_data"], PRIVATE, "nothing here")
    assert result.texts == [PRIVATE, "nothing here"]
    kinds = {"email": 1, "phone": 2, "card": 1, "iban": 1, "us_social_security": 1, "ip_address": 1}
    assert result.tally["found"] == {**kinds, "documents with some": 1}
    assert "example.co" not in str(result.source.cleaning()) + str(result.said), (
        "what was found is not repeated"
    )


def test_personal_data_is_masked_or_dropped() -> None:
    assert Result([{"kind": "personal_data", "action": "mask"}], PRIVATE).texts == [
        "Write to [email], call [phone] or [phone]. Card [card], IBAN [iban], SSN [us social security], "
        "server [ip address]."
    ]
    dropped = Result(
        [{"kind": "personal_data", "kinds": "card", "action": "drop"}], PRIVATE, "call +49 170 1234567"
    )
    assert dropped.texts == ["call +49 170 1234567"]
    assert dropped.tally["examples"] == ["document 1 (texts): personal data: 1 × card"]


@pytest.mark.parametrize(
    "text",
    [
        "In 1984 there were 100,000 of 2,000,000.",
        "version 1.2.3.4567 and 4111 1111 1111 1112",
        "on 2024-05-17 at 10:30:00, 3.14159265358979",
        "a@b and @home, DE00 3704 0044 0532 0130 00",
    ],
)
def test_other_numbers_are_no_personal_data(text: str) -> None:
    assert Result(["personal_data"], text).tally.get("found") is None


@given(st.integers(10**14, 10**18 - 1))
def test_a_changed_digit_breaks_the_check(number: int) -> None:
    check = next(digit for digit in range(10) if luhn(f"{number}{digit}"))
    assert sum(luhn(f"{number}{digit}") for digit in range(10)) == 1
    assert luhn(f"{number}{check}")


def test_iban_check_digits() -> None:
    assert iban("GB82 WEST 1234 5698 7654 32")
    assert not iban("GB82 WEST 1234 5698 7654 33")


def test_long_hostile_texts_are_searched_fast() -> None:
    """Patterns with nested repetition once took minutes on such texts."""
    steps = load_recipe({"cleaning": ["personal_data", "titles", "boilerplate"]}).cleaning
    built = [step.build() for step in steps]
    for text in ("+1" * 50_000, "1 " * 50_000, "a@" * 50_000, "*" * 100_000, "A" * 100_000, "1.1." * 25_000):
        for step in built:
            step.clean(text, 1)
