"""What is known of a text before the training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from octavo.auto import facts, family
from octavo.auto.facts import (
    MARGIN,
    SLOWER,
    Pilot,
    TextFacts,
    counting,
    end_spread,
    piloted_in,
    unlike,
    with_pilot,
)
from octavo.auto.family import BYTES, HELD_OUT, N_GRAMS, PAIRS, SIZES, recipe_of
from octavo.config import Recipe, check
from octavo.data import Dataset
from octavo.errors import CorpusError, InputError
from octavo.evaluation.baselines import HIGHEST
from octavo.ngram import mixing
from octavo.ngram.codes import Codes
from octavo.ngram.kneser_ney import KneserNey
from octavo.ngram.mixing import READING, ContextMixing, compiled
from octavo.ngram.mixing_counts import MOST_HEARD, MixingCounts, MixingCountsConfig
from octavo.run.data import build_dataset, held_out_of
from octavo.run.settings import resolve
from octavo.run.train import train
from octavo.tasks.text import task as text_task
from octavo.util.terminal import Console
from unit.auto.laws import FACTS

QUIET = Console(quiet=True)


def survey(path: Path, overrides: Sequence[str], console: Console, **limits: float) -> TextFacts:
    return facts.survey([path], overrides, console, **limits)[0]


def written(folder: Path, text: str) -> Path:
    path = folder / "text.txt"
    path.write_text(text)
    return path


WORDS = "the cat", "a dog", "no fox", "one bird"
KNESER_NEY = {"kind": "kneser-ney", "recent": family.RECENT}
KERNEL = pytest.mark.skipif(compiled() is None, reason="there is no C compiler")


@KERNEL
def test_the_figures_are_those_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting alone: a mixer that has read the text, what is held out last, and reads on in the split."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, "".join(f"{WORDS[n * n % 7 % 4]} saw {WORDS[n % 4]}.\n" for n in range(800)))
    found = survey(path, (), QUIET)
    recipe = resolve(recipe_of(SIZES[0], steps=1, tokenizer=found.tokenizer), path)
    dataset = build_dataset(recipe, QUIET)
    learned, tokens = (np.asarray(split.tokens) for split in (dataset.train, dataset.validation))
    held_out = held_out_of(recipe, dataset)
    in_order = np.concatenate((learned[~held_out], learned[held_out]))
    counts = np.bincount(in_order, minlength=dataset.tokenizer.vocab_size)
    codes = Codes.of(counts, dataset.tokenizer.spelt())
    mixer = ContextMixing(codes, capacity=2 * (len(learned) + len(tokens)))
    mixer.read(in_order)
    bits = mixer.read(tokens)[1:].sum() / np.log(2)
    # Another size of the tables, so other contexts share a place.
    assert found.counted == pytest.approx(bits / dataset.validation.bytes, rel=0.01)
    assert found.mixed and not found.idle and found.start == found.counted
    assert found.train_tokens == len(dataset.train.tokens) and found.documents == 1
    assert found.validation_tokens == len(tokens) and dataset.test is not None
    assert found.test_tokens == len(dataset.test.tokens) > 0
    assert found.alphabet == len(set(path.read_text()) - {"\n"})
    assert found.spread > 0 and found.token_seconds > 0


def test_without_a_kernel_n_grams_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of them with what the text has said so far; what the model begins with is that times what it has on the
    beginning of the split beside counting there."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    path = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(800)))
    read, *_ = facts.readings(path, (), QUIET)
    dataset, tokens = read.dataset, np.asarray(read.dataset.validation.tokens)
    losses = KneserNey(dataset.train.tokens, vocab_size=read.facts.vocabulary, highest=HIGHEST).losses(tokens)
    alone = losses.min() / np.log(2) * read.tokens_a_byte
    assert not read.facts.mixed and 0.5 * alone < read.facts.counted < alone + 1e-6
    before = Pilot(read).before
    assert survey(path, (), QUIET).start == pytest.approx(before * read.tokens_a_byte)
    monkeypatch.setattr(facts, "BEGIN", 300)
    begun = facts.by_ngrams(dataset.train.tokens, tokens[:300], vocab_size=read.facts.vocabulary)
    expected = read.facts.counted * Pilot(read).before / begun
    assert survey(path, (), QUIET).start == pytest.approx(expected)


def test_of_random_letters_nothing_tells_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    letters = np.random.default_rng(0).choice([*"abcdefgh"], 20_000)
    assert survey(written(tmp_path, "".join(letters)), (), QUIET).idle


@pytest.mark.parametrize(("steps", "piloted"), [(0, None), (600, 0.8)])
def test_a_pilot_is_trained_where_there_is_time(steps: int, piloted: float | None) -> None:
    asked: list[float] = []

    def share(given: int, console: Console, *, most_seconds: float) -> float:
        asked.extend((given, most_seconds))
        return 0.8

    pilot = SimpleNamespace(steps_in=lambda seconds: steps, share=share, seconds=7.0)
    known = with_pilot(FACTS, cast(Pilot, pilot), 10.0, QUIET)
    assert asked == ([steps, SLOWER * 10.0] if steps else [])
    assert known == replace(FACTS, piloted=piloted, pilot_steps=steps, pilot_seconds=7.0)


@pytest.mark.parametrize(
    ("seconds", "piloted", "charged"), [(60.0, 0.9, 24.0), (8.0, 0.9, 8.0), (5.0, None, 0.0)]
)
def test_a_pilot_of_a_longer_time_tells_of_those_that_have_time_for_one(
    seconds: float, piloted: float | None, charged: float
) -> None:
    """1,200 steps in 24 seconds: the 300 that a pilot has at least take 6."""
    facts = replace(FACTS, piloted=0.9, pilot_steps=1200, pilot_seconds=24.0)
    known = piloted_in(facts, seconds)
    assert (known.piloted, known.pilot_seconds) == (piloted, charged)
    assert known.pilot_steps == (1200 if piloted else 0)


def test_places_are_unlike_where_a_text_changes() -> None:
    """By hand: pieces that are easy and hard, and one kind throughout."""
    random = np.random.default_rng(0)
    turning = np.concatenate([random.normal(2 if piece % 3 else 5, 1, 500) for piece in range(40)])
    changes, same = (unlike(bits, 700) for bits in (turning, random.normal(2, 1, 20_000)))
    assert changes > 0.5 > 0.05 > same > 0
    differences = [
        turning[at + 700 : at + 1400].mean() - turning[at : at + 700].mean()
        for at in np.linspace(6000, 18_600, 8).astype(int)
    ]
    assert changes == pytest.approx(np.subtract(*np.percentile(differences, (75, 25))) / 1.349)


def test_the_end_of_a_text_is_less_like_it_than_its_places_are() -> None:
    prose, code = 0.005, 0.05
    assert end_spread(0.06, 1.8, prose) == end_spread(0.0, 1.8, prose) == pytest.approx(facts.PROSE)
    assert end_spread(0.001, 1.8, prose) > 0.001
    assert end_spread(0.01, 1.0, prose) == end_spread(0.01, 2.0, prose) < end_spread(0.1, 1.0, prose)
    assert end_spread(0.01, 1.8, code) == end_spread(0.1, 1.8, code) == pytest.approx(facts.CODE)
    assert end_spread(0.1, 2.0, code) < end_spread(0.1, 1.0, code) < end_spread(0.1, 0.4, code)
    assert end_spread(0.1, 0.01, code) == end_spread(0.1, 0.4, code)
    assert facts.PROSE < end_spread(0.06, 1.8, 0.02) < facts.CODE, "between the two"


def test_symbols_tell_code_from_prose(tmp_path: Path) -> None:
    assert facts.characters_of(written(tmp_path, "to be, or not to be\n")) == (8, 0.0)
    characters, symbols = facts.characters_of(written(tmp_path, "a = {b: [c]}\n" * 10))
    assert (characters, symbols) == (10, 5 / 13)


def test_a_text_too_short_for_two_pieces_has_no_places() -> None:
    bits = np.random.default_rng(0).random(100)
    assert unlike(bits, 40) == unlike(bits, 1) == 0 < unlike(bits, 20)


def test_the_end_of_a_text_is_harder_for_n_grams_alone_and_not_for_documents_held_out_by_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.jsonl"
    path.write_text(
        "".join(json.dumps({"text": f"{n} is {n % 7} by seven, {n // 5} by five"}) + "\n" for n in range(600))
    )
    ngrams = "model.counts=kneser-ney"
    assert survey(path, ["split=documents", ngrams], QUIET).drift == 0
    assert survey(path, [ngrams], QUIET).drift == facts.HARDER > 0
    assert survey(path, (), QUIET).drift == (0 if compiled() else facts.HARDER)


@KERNEL
def test_how_unlike_places_are_is_in_bits_per_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, "".join(f"the {n % 7} of the {n // 5}\n" for n in range(3000)))
    recipe = resolve(recipe_of(SIZES[0], steps=1, tokenizer=PAIRS), path)
    monkeypatch.setattr(facts, "unlike", lambda *_: 0.5)
    read = facts.counted(build_dataset(recipe, QUIET), recipe, PAIRS)
    assert read.tokens_a_byte < 0.7
    assert read.facts.spread == pytest.approx(end_spread(0.5 * read.tokens_a_byte, read.facts.counted, 0.0))


def test_the_alphabet_of_a_text_that_ends_within_a_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "LONG", 6)
    path = tmp_path / "text.txt"
    path.write_bytes("a\r\nüöß".encode())  # the sixth byte is the first of ö
    assert facts.characters_of(path)[0] == 2


@pytest.mark.usefixtures("plain_reports")
@pytest.mark.parametrize("mixed", [pytest.param(True, marks=KERNEL), False])
def test_a_run_begins_where_the_facts_say(
    mixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    if not mixed:
        monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    path = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(900)))
    found = survey(path, ["tokenizer.characters=300"], QUIET)
    recipe = recipe_of(SIZES[0], steps=1, tokenizer={**BYTES, "characters": 300})
    recipe["training"]["precision"] = "float32"
    run = train(recipe, path, tmp_path / "run", quiet=True)
    if mixed:
        begun = json.loads((run.path / "evaluation.json").read_text())["reading_on"]["alone_bits_per_byte"]
    else:
        rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        first = next(row for row in rows if row["event"] == "validation" and row["step"] == 0)
        begun = first["bits_per_byte"]
    assert begun == pytest.approx(found.start, rel=1e-5)


def test_a_text_is_read_as_what_counting_predicts_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words from a short list, at random: as pairs they are a token or two, which n-grams need and a mixer, which knows
    of words, does not. Random letters have no pairs that help."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdefghijklmnop"), 9)) for _ in range(300)]
    text = written(tmp_path, " ".join(random.choice(words, 20_000)))
    if compiled() is not None:
        ((mixed, *_),) = facts.readings(text, (), QUIET)
        assert mixed.tokenizer["kind"] == "byte" and mixed.counted > 0.82
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    (pairs, *_), (other, *_) = facts.readings(text, (), QUIET)
    assert pairs.tokenizer["kind"] == "bpe" and other.counted > pairs.counted
    assert pairs.bytes_per_token > 3 and pairs.vocabulary > 500
    if compiled() is not None:
        assert mixed.counted < pairs.counted * (1 + MARGIN)
    letters = written(tmp_path, "".join(random.choice(list("abcd \n"), 12_000)))
    (first, *_), (other, *_) = facts.readings(letters, (), QUIET)
    assert first.tokenizer["kind"] == "byte" and other.counted >= first.counted


@pytest.mark.skipif(compiled() is None, reason="there is no kernel of a context mixer here")
def test_of_a_text_that_a_mixer_cannot_read_in_time_it_reads_the_last_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    text = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(2000)))
    (whole,) = facts.readings(text, (), QUIET)
    train = whole.dataset.train.bytes
    assert isinstance(whole.counts, MixingCounts) and len(whole.counts.tokens) == train
    held_out = facts.VALIDATIONS * whole.dataset.validation.bytes + whole.dataset.test.bytes
    enough = READING * (train + held_out) / facts.MOST_MIXING
    for seconds in (1.01 * enough, 0.9 * enough, 0.01 * enough):
        (found,) = facts.readings(text, (), QUIET, seconds=seconds)
        counted = found.facts.counts
        assert counted["kind"] == "mixing" and isinstance(found.counts, MixingCounts)
        assert len(found.counts.tokens) == counted.get("most", train)
        if seconds > enough:
            assert "most" not in counted and found.facts.counted == whole.facts.counted
        else:
            read = facts.MOST_MIXING * seconds / READING
            assert counted["most"] == pytest.approx(max(read - held_out, MOST_HEARD), abs=1)
            recipe = check(recipe_of(SIZES[0], steps=1, counts=counted))
            assert isinstance(recipe.model.counts, MixingCountsConfig)
            assert recipe.model.counts.most == counted["most"]


@pytest.mark.skipif(compiled() is None, reason="there is no kernel of a context mixer here")
def test_on_a_processor_that_is_slower_it_reads_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    text = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(2000)))
    (whole,) = facts.readings(text, (), QUIET)
    assert facts.unit_seconds_here(whole.dataset) == facts.USUAL, "a short text does not tell"
    monkeypatch.setattr(mixing, "TELLING", 1000)
    assert facts.unit_seconds_here(whole.dataset) != facts.USUAL
    pairs = facts.readings(text, ["tokenizer.kind=bpe", "tokenizer.size=300"], QUIET)[0].dataset
    assert facts.unit_seconds_here(pairs) != facts.USUAL, "of two units each"
    seconds = 2 * READING * whole.dataset.train.bytes / facts.MOST_MIXING
    for slower in (0.5, 1, 2.5):
        monkeypatch.setattr(facts, "unit_seconds_here", lambda _, slower=slower: slower * facts.USUAL)
        (found,) = facts.readings(text, (), QUIET, seconds=seconds)
        counted = facts.read_in(seconds / slower, whole.dataset) if slower > 1 else whole.dataset.train.bytes
        assert len(found.counts.tokens) == int(counted)


@pytest.mark.parametrize("kind", ["none", "kneser-ney"])
def test_what_else_is_to_count_leaves_the_promise_to_ngrams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The promise is of the choice alone, and knows nothing of a setting of one's own."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    text = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(900)))
    found = survey(text, (f"model.counts={kind}",), QUIET)
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    expected = survey(text, (), QUIET)
    assert found.counts == expected.counts == N_GRAMS
    assert (found.start, found.counted) == (expected.start, expected.counted)


def test_of_a_long_text_no_more_is_held_out_than_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    text = written(tmp_path, "".join(f"{n % 37} and {n % 11} are {n % 37 + n % 11}.\n" for n in range(2000)))
    (usual, *_) = facts.readings(text, (), QUIET)
    assert usual.facts.held_out == HELD_OUT
    monkeypatch.setattr(facts, "MOST_HELD_OUT", 500)
    for found in facts.readings(text, (), QUIET):
        assert found.facts.held_out == 500 / usual.dataset.train.bytes < HELD_OUT
        for split in (found.dataset.validation, found.dataset.test):
            assert 400 < split.bytes < 600
        assert found.recipe.validation == found.recipe.test == found.facts.held_out
    monkeypatch.setattr(facts, "ENOUGH_HELD_OUT", 300)
    for seconds, most in ((1e-3, 300), (0.04, 400), (9.0, 500)):
        found = facts.readings(text, (), QUIET, seconds=seconds)[0].facts
        assert found.held_out == pytest.approx(most / usual.dataset.train.bytes)
    own = facts.readings(text, ["validation=0.1"], QUIET)[0]
    assert own.dataset.validation.bytes > 3000 and own.dataset.test.bytes < 600


def test_pairs_must_be_better_by_a_margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two readings that are as good, bytes are taken."""
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, "the cat saw a dog, and the dog saw no cat.\n" * 300)

    def with_bits(pairs: float) -> str:
        read, found = facts.counted, {"byte": 2.0, "bpe": pairs}

        def with_these(data: Dataset, recipe: Recipe, way: Mapping[str, Any]) -> facts.Reading:
            known = read(data, recipe, way)
            return known._replace(facts=replace(known.facts, counted=found[way["kind"]]))

        with monkeypatch.context() as patched:
            patched.setattr(facts, "counted", with_these)
            (first, *_), *_ = facts.readings(path, (), QUIET)
            return first.tokenizer["kind"]

    assert [with_bits(bits) for bits in (2.1, 1.99, 1.97, 1.94)] == ["byte", "byte", "byte", "bpe"]


def test_short_texts_are_read_in_both_ways_and_long_ones_as_pairs_when_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    path = written(tmp_path, "the cat saw a dog, and the dog saw no cat.\n" * 300)
    found = survey(path, (), QUIET, seconds=0)
    assert found.others.keys() == {"byte", "bpe"} - {found.tokenizer["kind"]}
    monkeypatch.setattr(facts, "LONG", 1000)
    found = survey(path, (), QUIET, seconds=0)
    assert (found.tokenizer["kind"], found.others) == ("bpe", {})


def test_bytes_of_a_long_text_are_left_out_sooner_for_they_take_longer_and_are_seldom_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(family, "counts_here", lambda: KNESER_NEY)
    path = written(tmp_path, "the cat saw a dog, and the dog saw no cat.\n" * 300)

    def tried(seconds: float) -> list[str]:
        clock = SimpleNamespace(
            monotonic=iter(range(100)).__next__, thread_time=float
        )  # a second passes at each look
        with monkeypatch.context() as patch:
            patch.setattr(facts, "time", clock)
            return [
                each.facts.tokenizer["kind"] for each in facts.readings([path], (), QUIET, seconds=seconds)
            ]

    assert sorted(tried(2)) == ["bpe", "byte"]
    monkeypatch.setattr(facts, "LONG", 1000)
    assert tried(2) == ["bpe"] and sorted(tried(3)) == ["bpe", "byte"]


def test_what_is_done_at_once_comes_out_as_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneAfterAnother:
        def __init__(self, work: Callable[[], Any]) -> None:
            self.found = work()

        def result(self) -> Any:
            return self.found

    words = np.random.default_rng(7).choice(["the", "cat", "saw", "a", "dog", "and", "no", "hen"], 2_500)
    path = written(tmp_path, " ".join(words))
    found = []
    for way in (facts.Meanwhile, OneAfterAnother):
        monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / way.__name__))
        monkeypatch.setattr(facts, "Meanwhile", way)
        monkeypatch.setattr(text_task, "Meanwhile", way)
        known, pilot = facts.survey([path], (), QUIET)
        recipe = resolve(recipe_of(SIZES[0], steps=1, tokenizer=known.tokenizer), path)
        beside = text_task.cached_baselines(pilot.dataset, recipe, QUIET)
        found.append((replace(known, token_seconds=0.0), pilot.before, beside))
    assert found[0] == found[1]


def test_a_tokenizer_of_the_callers_own_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, "the cat saw a dog, and the dog saw no cat.\n" * 300)
    found = survey(path, ["tokenizer={kind: bpe, size: 262}"], QUIET)
    assert found.vocabulary == 262 and not found.others
    assert survey(path, ["tokenizer.characters=0"], QUIET).vocabulary in (256, 257)


def test_one_repeated_line_is_a_text_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    found = survey(written(tmp_path, "the same line\n" * 500), (), QUIET)
    assert 0 < found.counted < 0.2


def test_a_text_too_short_to_hold_anything_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CorpusError):
        survey(written(tmp_path, "abc"), (), QUIET)


def test_counting_is_in_bits() -> None:
    """Two for each of four letters at random."""
    letters = np.random.default_rng(4).integers(0, 4, 4000)
    model, places = KneserNey(letters[:3000], vocab_size=4, highest=1), np.arange(1, 1000)
    assert counting(model, letters[3000:], places).mean() == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("letters", [4, 64])
def test_what_a_text_has_said_is_left_out_where_it_tells_nothing(letters: int) -> None:
    """The share that is best is found slowly: of letters at random it is not nothing yet."""
    random = np.random.default_rng(letters + 300)
    text, held_out = random.integers(letters, size=20_000), random.integers(letters, size=300)
    model = KneserNey(text, vocab_size=letters, highest=3)
    alone = -np.log2(model.probabilities(held_out)[-1])
    assert counting(model, held_out, np.arange(300)).tolist() == alone.tolist()


@pytest.mark.parametrize(("held_out", "refused"), [(0, True), (1, True), (2, False), (None, False)])
def test_a_test_split_of_which_nothing_can_be_predicted_is_refused(
    held_out: int | None, refused: bool
) -> None:
    def split(tokens: int) -> Any:
        return SimpleNamespace(tokens=np.zeros(tokens, np.int64))

    dataset: Any = SimpleNamespace(train=split(1000), test=None if held_out is None else split(held_out))
    recipe = resolve(recipe_of(SIZES[0], steps=1), "text.txt")
    with pytest.raises(InputError, match=f"split has {held_out} ") if refused else nullcontext():
        facts.refuse_too_short(dataset, recipe)


def test_languages_are_told_where_there_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("py3langid")
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, "The old man walked down to the river and looked at the water. " * 200)
    assert facts.survey(path, (), QUIET, seconds=facts.UNHURRIED - 1)[0].languages == {}
    assert facts.survey(path, (), QUIET)[0].languages == {"en": 1.0}
