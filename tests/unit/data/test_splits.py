"""Splits: where the text is cut, and that nothing stands on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus.records.turns import Message, Turns
from octavo.data.splits import split_text
from octavo.data.text import Text, ingest
from octavo.errors import CorpusError
from unit.data.common import Given

Split = Callable[..., tuple[list[str], list[str], int, list[str]]]


def documents_of(text: Text) -> list[str]:
    content = text.path.read_bytes()
    assert len(content) == text.bytes and len(content.decode()) == text.total_characters
    found = [content[a:b].decode() for a, b in zip(text.starts.tolist(), text.stops.tolist(), strict=True)]
    assert [len(one) for one in found] == text.characters.tolist()
    assert content.decode() == ("".join(f"{one}\n" for one in found) if text.several else found[0])
    return found


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    def run(
        texts: list[str], how: str = "contiguous", validation: float = 0.1, files: Sequence[str] = ()
    ) -> tuple[list[str], list[str], int, list[str]]:
        folder: Path = tmp_path_factory.mktemp("split")
        said: list[str] = []
        parts, removed = split_text(
            ingest(Given(*texts, files=files), folder / "all.txt"), how, validation, folder, said.append
        )
        return documents_of(parts["train"]), documents_of(parts["validation"]), removed, said

    return run


@given(text=st.text(st.sampled_from("ab é😀"), min_size=2), share=st.floats(0.05, 0.95))
def test_one_document_is_cut_at_the_character(text: str, share: float, split: Split) -> None:
    at = int((1 - share) * len(text))
    if not text.strip() or not 0 < at < len(text):
        return
    assert split([text], validation=share) == ([text[:at]], [text[at:]], 0, [])


def test_a_cut_deep_in_a_long_text(split: Split) -> None:
    text = "é" * 1_500_000 + "x" * 500_000
    train, validation, _, _ = split([text], validation=0.4)
    assert (len(train[0]), len(validation[0])) == (1_200_000, 800_000)
    assert train[0] + validation[0] == text


def test_tinyshakespeare_is_cut_as_in_nanogpt(test_data: Path, split: Split) -> None:
    text = (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    train, validation, _, _ = split([text])
    assert (train, validation) == ([text[:1_003_854]], [text[1_003_854:]])
    assert len(validation[0]) == 111_540


@pytest.mark.parametrize(("share", "cut"), [(0.1, 9), (0.2, 8), (0.25, 8), (0.5, 5), (0.91, 1), (0.95, 1)])
def test_several_documents_are_cut_at_the_next_boundary(share: float, cut: int, split: Split) -> None:
    texts = [f"text{number}" for number in range(10)]  # six characters each, with the line break
    assert split(texts, validation=share) == (texts[:cut], texts[cut:], 0, [])


def test_a_last_document_too_long_to_wait_for_is_cut(split: Split) -> None:
    train, validation, _, said = split(["short", "x" * 994])
    assert (train, validation) == (["short", "x" * 894], ["x" * 100])
    assert said == ["the split falls inside the last document, which is cut in two"]


def test_repeats_across_a_contiguous_split_are_said(split: Split) -> None:
    texts = [f"text{number}" for number in range(9)]
    train, validation, removed, said = split([*texts, "text 3"])
    assert (train, validation, removed) == (texts, ["text 3"], 0)
    assert said[0].startswith("1 of 1 held-out documents stand in the training part too")


@given(numbers=st.lists(st.integers(0, 60), min_size=20), spaces=st.lists(st.integers(1, 3), min_size=20))
def test_by_hash_nothing_stands_on_both_sides(numbers: list[int], spaces: list[int], split: Split) -> None:
    texts = [f"text{' ' * n}{number}" for number, n in zip(numbers, spaces * len(numbers), strict=False)]
    try:
        train, validation, removed, said = split(texts, "documents", 0.3)
    except CorpusError:
        assert len(set(numbers)) < 30
        return
    bare = ["".join(text.split()) for text in train + validation]
    assert len(set(bare)) == len(bare) == len(set(numbers))
    assert removed == len(texts) - len(bare)
    assert bool(said) == bool(removed)
    # The first of each stays, in order.
    firsts = [text for at, text in enumerate(texts) if numbers.index(numbers[at]) == at]
    assert train == [text for text in firsts if text in train]
    assert validation == [text for text in firsts if text in validation]


def test_a_document_keeps_its_side_when_others_come(split: Split) -> None:
    texts = [f"text {number}" for number in range(200)]
    train, validation, _, _ = split(texts, "documents")
    assert 5 <= len(validation) <= 40
    more_train, more_validation, _, _ = split(["new", *reversed(texts), "newer"], "documents")
    assert set(train) <= set(more_train) and set(validation) <= set(more_validation)


def test_removed_documents_are_counted_and_said(split: Split) -> None:
    texts = [f"text {number}" for number in range(100)]
    assert split([*texts, *texts[:2]], "documents")[2:] == (
        2,
        ["removed 2 documents that repeat an earlier one"],
    )
    assert split([*texts, texts[7]], "documents")[2:] == (
        1,
        ["removed 1 document that repeats an earlier one"],
    )


def test_of_each_file_the_end_is_held_out(split: Split) -> None:
    texts = [f"text{number}" for number in range(20)] + ["é" * 50]
    files = ["one"] * 10 + ["two"] * 10 + ["three"]
    train, validation, removed, said = split(texts, "files", 0.2, files)
    assert train == [*texts[:8], *texts[10:18], "é" * 40]
    assert validation == [*texts[8:10], *texts[18:20], "é" * 10]
    assert (removed, said) == (0, [])


@given(
    documents=st.lists(
        st.tuples(st.text("ab é😀", min_size=1, max_size=30), st.sampled_from("abc")), min_size=1
    ),
    share=st.floats(0.05, 0.95),
)
def test_a_split_by_files_loses_nothing_and_takes_some_of_each(
    documents: list[tuple[str, str]], share: float, split: Split
) -> None:
    texts, files = [text for text, _ in documents], [file for _, file in documents]
    try:
        train, validation, _, _ = split(texts, "files", share, files)
    except CorpusError:
        assert "".join(texts).isspace() or all(
            int((1 - share) * sum(len(text) + 1 for text in own))
            in (0, sum(len(text) + 1 for text in own) - 1)
            for file in set(files)
            if (own := [text for text, of in documents if of == file])
        )
        return
    assert sorted("".join(train + validation)) == sorted("".join(texts))
    for file in set(files):
        own = [text for text, of in documents if of == file]
        characters = sum(len(text) + 1 for text in own)
        point = int((1 - share) * characters)
        # What begins before the point is learned; each document, or each half of one, keeps its text.
        begins = 0
        for at, text in enumerate(own):
            if begins >= point:
                assert text in validation
            elif at < len(own) - 1:
                assert text in train
            begins += len(text) + 1


def test_files_may_be_mixed_and_keep_their_order(split: Split) -> None:
    texts = [f"{number:04}" for number in range(40)]
    train, validation, _, _ = split(texts, "files", 0.1, ["even", "odd"] * 20)
    assert validation == texts[36:] and train == texts[:36]


@pytest.mark.parametrize(
    ("texts", "how", "share", "part"),
    [
        (["a"], "contiguous", 0.1, "train"),
        (["some text"], "contiguous", 0.01, "train or validation"),
        (["some text"], "documents", 0.1, "validation"),
        (["same", "same"], "documents", 0.1, "validation"),
    ],
)
def test_an_empty_part_is_an_error(texts: list[str], how: str, share: float, part: str, split: Split) -> None:
    if part == "train or validation":
        train, validation, _, _ = split(texts, how, share)
        assert train and validation
        return
    repeats = texts == ["same", "same"]
    expected = f"of which 1 repeats others,.*the {part} part would be empty" if repeats else "too short"
    with pytest.raises(CorpusError, match=expected) as caught:
        split(texts, how, share)
    assert caught.value.remedy and f"split={how}" not in caught.value.remedy


def three_ways(
    texts: list[str],
    folder: Path,
    how: str,
    validation: float,
    test: float,
    files: Sequence[str] = (),
) -> list[list[str]]:
    text = ingest(Given(*texts, files=files), folder / "all.txt")
    parts, _ = split_text(text, how, validation, folder, lambda said: None, test=test)
    return [documents_of(parts[name]) for name in ("train", "validation", "test")]


def test_one_document_is_cut_in_three(tmp_path: Path) -> None:
    assert three_ways(["0123456789" * 10], tmp_path, "contiguous", 0.2, 0.1) == [
        ["0123456789" * 7],
        ["0123456789" * 2],
        ["0123456789"],
    ]


def test_a_test_share_comes_after_validation(tmp_path: Path) -> None:
    texts = [f"text{number}" for number in range(10)]
    assert three_ways(texts, tmp_path, "contiguous", 0.2, 0.1) == [texts[:7], texts[7:9], texts[9:]]


def test_each_file_has_all_three_parts(tmp_path: Path) -> None:
    """A file's last document that is all that is held out is cut again, so that neither part is empty."""
    texts = ["a" * 80, "b" * 19, "é" * 100]
    found = three_ways(texts, tmp_path, "files", 0.1, 0.1, files=["one", "one", "two"])
    assert found == [["a" * 80, "é" * 80], ["b" * 10, "é" * 10], ["b" * 9, "é" * 10]]


@given(
    numbers=st.lists(st.integers(0, 90), min_size=40, unique=True),
    how=st.sampled_from(["contiguous", "documents", "files"]),
)
def test_three_parts_are_the_whole_text(
    numbers: list[int], how: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts, files = [f"text{number}" for number in numbers], ["ab"[number % 2] for number in numbers]
    parts = three_ways(texts, tmp_path_factory.mktemp("split"), how, 0.25, 0.25, files)
    if how == "documents":
        assert sorted(chain(*parts)) == sorted(texts)
    else:  # documents may be cut
        assert sorted("".join(chain(*parts))) == sorted("".join(texts))


def test_by_hash_validation_is_the_same_with_and_without_a_test_share(tmp_path: Path, split: Split) -> None:
    texts = [f"text{number}" for number in range(60)]
    assert three_ways(texts, tmp_path, "documents", 0.3, 0.2)[1] == split(texts, "documents", 0.3)[1]


@pytest.mark.parametrize("how", ["contiguous", "files", "documents"])
def test_a_text_too_short_for_three_parts_says_what_helps(how: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"too short \(9 characters\)") as error:
        three_ways(["too short"], tmp_path, how, 0.05, 0.05)
    assert "test=0.05" in str(error.value.remedy)


@given(
    records=st.lists(
        st.tuples(st.sampled_from(["a?", "b?", "c?", "b ?", ""]), st.text("xy", min_size=1, max_size=3)),
        min_size=1,
        max_size=40,
    ),
    pairs=st.booleans(),
    system=st.booleans(),
    shares=st.tuples(st.floats(0.05, 0.6), st.sampled_from([0.05, 0.3])),
)
def test_a_prompt_is_on_one_side_alone(
    records: list[tuple[str, str]],
    pairs: bool,
    system: bool,
    shares: tuple[float, float],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    texts = []
    for number, (prompt, answer) in enumerate(records):
        messages = (Message("system", "Be brief."),) * (system and bool(prompt))
        messages += (Message("user", prompt),) * bool(prompt)
        sides = (answer, answer + "!") if pairs else (None, None)
        # What comes after the first answer makes no other prompt.
        later = () if pairs and number % 2 else (Message("assistant", answer), Message("user", f"{number}"))
        texts.append(Turns((*messages, *later), *sides).text())
    try:
        parts = three_ways(texts, tmp_path_factory.mktemp("split"), "prompts", *shares)
    except CorpusError as error:
        assert error.remedy and "split=documents" in error.remedy
        return
    assert sorted(chain.from_iterable(parts)) == sorted(set(texts))
    asked = [
        {"".join(one.content.split()) for text in part for one in Turns.of(text).prompt} for part in parts
    ]
    asked = [said - {"Bebrief."} for said in asked]
    assert sum(map(len, asked)) == len(set().union(*asked))


def test_of_conversations_that_answer_nothing_each_stands_for_itself(split: Split) -> None:
    texts = [Turns((), f"good {number}", f"bad {number}").text() for number in range(200)]
    train, validation, _, _ = split(texts, "prompts", 0.2)
    assert sorted(train + validation) == sorted(texts) and 20 <= len(validation) <= 60


def pair_sides(part: list[str]) -> list[set[str]]:
    """The sources and the targets of a part, without white space."""
    return [
        {"".join(side.split()) for side in column}
        for column in zip(*(one.split("\n") for one in part), strict=True)
    ]


@given(
    numbers=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=20, max_size=60),
    test=st.sampled_from([0.0, 0.25]),
)
def test_no_source_and_no_target_is_on_two_sides(
    numbers: list[tuple[int, int]], test: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = [
        f"source{' ' * (1 + number % 2)}{source}\ntarget {target}"
        for number, (source, target) in enumerate(numbers)
    ]
    names = ["train", "validation", "test"][: 3 if test else 2]

    def sides_of(ordered: list[str]) -> list[list[str]]:
        folder = tmp_path_factory.mktemp("split")
        text = ingest(Given(*ordered), folder / "all.txt")
        parts, removed = split_text(text, "sources", 0.25, folder, lambda said: None, test=test)
        assert removed == len(numbers) - len(set(numbers))
        return [documents_of(parts[name]) for name in names]

    try:
        parts = sides_of(texts)
    except CorpusError as error:
        assert (
            error.remedy and "take split=documents, which lets a source stand on both sides" in error.remedy
        )
        return
    assert sorted("".join(one.split()) for one in chain(*parts)) == sorted(
        {f"source{source}target{target}" for source, target in numbers}
    )
    for column in zip(*map(pair_sides, parts), strict=True):
        assert sum(map(len, column)) == len(set().union(*column))
    bare = [{"".join(one.split()) for one in part} for part in parts]
    assert bare == [{"".join(one.split()) for one in part} for part in sides_of(texts[::-1])]


def test_groups_of_pairs_are_held_out_as_often_as_pairs_alone(split: Split) -> None:
    """The least hash of a group, taken as it is, would hold nearly half of these groups out."""
    texts = [f"source {number}\ntarget {number // 5}" for number in range(5000)]
    train, validation, removed, said = split(texts, "sources", 0.1)
    assert removed == 0 and 350 <= len(validation) <= 650 and len(train) + len(validation) == 5000
    assert said == [
        "5,000 of 5,000 pairs share a source or a target with another: no such sentence stands on both sides of "
        "the split"
    ]


def test_a_long_chain_of_pairs_is_one_group_and_is_learned(split: Split) -> None:
    """Each has the source of the one before or the target of the one after."""
    chained = [f"source {number // 2}\ntarget {(number + 1) // 2}" for number in range(301)]
    alone = [f"own {number}\nits {number}" for number in range(600)]
    train, validation, _, said = split([*alone, *chained], "sources", 0.2)
    assert set(chained) <= set(train) and 60 <= len(validation) <= 180
    assert "301 of 901 pairs" in said[0] and said[0].endswith(
        "the largest group of them, 301 pairs, stays in training"
    )


def test_pairs_whose_sides_are_all_linked_cannot_be_split_by_sources(split: Split) -> None:
    with pytest.raises(CorpusError, match="validation part would be empty") as error:
        split([f"the same\ntarget {number}" for number in range(40)], "sources")
    assert "split=documents" in str(error.value.remedy)


def test_pairs_without_a_target_share_nothing(split: Split) -> None:
    texts = [f"source {number}\n" for number in range(300)]
    train, validation, _, said = split(texts, "sources", 0.2)
    assert len(train) + len(validation) == 300 and 30 <= len(validation) <= 90 and said == []
