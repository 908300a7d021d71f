"""What is chosen, by a law whose numbers are known."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from octavo.auto import choose
from octavo.auto.choose import (
    LEAST_STEPS,
    LESS,
    MORE,
    OFTEN,
    SEEN,
    STEPS_MEASURED,
    SURE,
    WORN,
    choices,
    least_seconds,
    operations,
    pilot_point,
    point_of,
    reasons,
    step_times,
    steps_in,
)
from octavo.auto.family import (
    FEWEST_JUDGED,
    MOST_JUDGED,
    N_GRAMS,
    PAIRS,
    SIZES,
    Size,
    dropout_for,
    judged_in,
    looks_in,
    parameters_of,
)
from octavo.auto.law import shipped_law
from octavo.config import check
from octavo.config.schema import ASKING
from octavo.ngram.mixing import compiled
from unit.auto.laws import FACTS, made_up

SPEEDS = {size: 0.01 * 2**number for number, size in enumerate(SIZES)}
QUICK = dict(zip(SIZES, (0.011, 0.02, 0.05, 0.14, 0.3, 0.9), strict=True))
SHORT = replace(FACTS, train_tokens=160_000, train_bytes=160_000, counts=N_GRAMS)


def test_more_time_takes_a_larger_model_and_promises_more() -> None:
    best = [choices(FACTS, SPEEDS, seconds, made_up())[0] for seconds in (5, 60, 600, 6000)]
    assert all(after.bits < before.bits + 1e-4 for before, after in pairwise(best))
    assert [one.parameters for one in best] == sorted(one.parameters for one in best)
    assert best[0].parameters < best[-1].parameters
    assert all(one.steps <= one.most_steps for one in best)


@pytest.mark.parametrize("last", [60, 61, 62, 63, 700, 6721, 6791, 9000, 80_000])
def test_the_best_number_of_steps_is_found_exactly(last: int) -> None:
    def share(count: int) -> float:
        return 300 / count + count / 150_000

    assert choose._least(share, 60, last) == min(range(60, last + 1), key=share)


def test_judging_takes_its_part_of_the_time() -> None:
    least = least_seconds(FACTS, SPEEDS)
    assert choices(FACTS, SPEEDS, 1.01 * least, made_up())
    assert not choices(FACTS, SPEEDS, 0.99 * least, made_up())
    unjudged = replace(FACTS, validation_tokens=0, test_tokens=0)
    each = {one.size: one.most_steps for one in choices(unjudged, SPEEDS, 1000, made_up())}
    for one in choices(FACTS, SPEEDS, 1000, made_up()):
        # Of a step's time for as many tokens: 0.3, eleven times one split, 1.6 times at the end, and 0.5 of the other,
        # and both again, which a mixer hears; for counting 0.3 of the smallest size's, and a 25,000th for each
        # token of the vocabulary.
        step, smallest = SPEEDS[one.size] / one.size.step_tokens, SPEEDS[SIZES[0]] / SIZES[0].step_tokens
        looks = 50_000 * (13.6 * 0.35 + 2 * 0.5) * step + 50_000 * 13.6 * (0.3 + 65 / 25_000) * smallest
        looks += 1.5 * 100_000 * FACTS.token_seconds  # in both splits two mixers read on
        assert each[one.size] - one.most_steps == pytest.approx(looks / SPEEDS[one.size], abs=1)


def test_a_large_vocabulary_takes_longer_to_judge() -> None:
    small, large = (steps_in(60, replace(FACTS, vocabulary=one), SIZES[1], SPEEDS) for one in (65, 8192))
    assert large < small


def test_all_looks_together_take_a_twentieth_of_a_short_training() -> None:
    for counts, share in ((N_GRAMS, 1 / 3), ({"kind": "mixing"}, 1)):
        long = replace(FACTS, validation_tokens=10**6, counts=counts)
        for one in choices(long, SPEEDS, 3000, made_up()):
            each = one.recipe()["evaluation"]["tokens"]
            learned = one.steps * one.size.step_tokens
            assert FEWEST_JUDGED <= each <= MOST_JUDGED
            if FEWEST_JUDGED < each < MOST_JUDGED:
                assert looks_in(one.size, one.steps) * each * share == pytest.approx(learned / 20, rel=0.01)
    assert [looks_in(SIZES[0], steps) for steps in (20, 900, 10**6)] == [4, 6, 10]
    for mixes in (False, True):
        assert judged_in(SIZES[0], -5, mixes=mixes) == FEWEST_JUDGED
        assert judged_in(SIZES[-1], 10**6, mixes=mixes) == MOST_JUDGED


def test_the_languages_of_a_text_are_named() -> None:
    best = choices(FACTS, SPEEDS, 60, made_up())[0]

    def said(**shares: float) -> str:
        return reasons(best, [], replace(FACTS, languages=shares), 60, made_up())["text"]

    assert said().endswith("document.")
    assert said(en=1.0).endswith("it is English (from samples).") and said(en=0.97, de=0.03) == said(en=1.0)
    assert "75% of it is English, 25% of it is German (from samples)" in said(en=0.75, de=0.25)


def test_a_short_text_is_not_seen_as_often_as_there_is_time_for() -> None:
    short = replace(FACTS, train_tokens=30_000, train_bytes=30_000)
    best = choices(short, SPEEDS, 6000, made_up())[0]
    assert best.steps < best.most_steps / 2
    assert best.recipe()["training"]["passes"] == pytest.approx(MORE * best.passes, rel=0.01)
    assert "by heart" in reasons(best, [], short, 6000, made_up())["training.steps"]


def test_of_choices_that_are_alike_the_one_that_sees_its_text_least_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "ALIKE", 10)
    short = replace(FACTS, train_tokens=150_000, train_bytes=150_000)
    found = choices(short, SPEEDS, 60, made_up(), taught=False)
    best = min(found, key=lambda choice: choice.bits)
    alike = [choice for choice in found if choice.bits <= (1 + 10 * made_up().residual) * best.bits]
    assert best.passes > OFTEN and len(alike) > 1
    assert found[0].passes == min(choice.passes for choice in alike)
    once = choices(replace(FACTS, train_tokens=10**8, train_bytes=10**8), SPEEDS, 60, made_up())
    assert once == sorted(once, key=lambda choice: choice.bits), "nothing is seen often: the best is the best"
    surer = choices(short, SPEEDS, 60, made_up(residual=1e-6), taught=False)
    assert surer == sorted(surer, key=lambda choice: choice.bits), "a law that is right tells all apart"


def test_a_short_text_and_much_time_are_worth_a_teacher() -> None:
    short = replace(SHORT, validation_tokens=9_000, test_tokens=9_000)
    law = shipped_law(mixed=False)
    beside_a_mixer = replace(short, counts={"kind": "mixing"})
    for seconds, teachers in ((30, 0), (600, 1), (6000, 3)):
        assert not any(each.teaching.teachers for each in choices(beside_a_mixer, QUICK, seconds, law))
        best = choices(short, QUICK, seconds, law)[0]
        alone = choices(short, QUICK, seconds, law, taught=False)[0]
        assert best.teaching.teachers == teachers and not alone.teaching.teachers
        assert best.bits < alone.bits if teachers else best == alone
        own = check(best.recipe()).training.teachers
        assert own.trained == teachers
        # All trainings together take no longer than one alone may.
        assert own.whole(best.steps) * (1 + ASKING if teachers else 1) <= best.most_steps + 1
        said = reasons(best, [alone], short, seconds, law)
        assert ("training.teachers" in said) == bool(teachers)
        if teachers:
            assert own.trained_steps == best.steps_of_each == best.steps // best.teaching.longer
            assert best.passes == pytest.approx(best.steps * best.size.step_tokens / short.train_tokens)
            assert own.trained_dropout == round(best.dropout + LESS, 3) == best.teacher_dropout
            assert (
                f"{best.dropout:g} beside a teacher, which has {best.teacher_dropout:g}"
                in said["model.dropout"]
            )
            assert f"learned for {best.steps_of_each:,} steps" in said["training.teachers"]


def test_beside_a_mixer_a_text_may_be_seen_more_often() -> None:
    """What is learned by heart costs the mixture little, so its law says that more steps are better."""
    mixed = replace(SHORT, counts={"kind": "mixing"})
    beside_mixer, beside_ngrams = (
        {one.size: one for one in choices(mixed, QUICK, 6000, shipped_law(mixed=each))}
        for each in (True, False)
    )
    for size in SIZES[:4]:
        one = beside_mixer[size]
        assert one.steps > 1.5 * beside_ngrams[size].steps
        assert one.dropout == dropout_for(one.passes, one.parameters / mixed.train_tokens)


def test_a_teacher_brings_a_part_of_what_one_training_does() -> None:
    short = SHORT
    best = choices(short, QUICK, 600, shipped_law(mixed=False))[0]
    each = best.steps_of_each * best.size.step_tokens
    share = shipped_law(mixed=False).share(best.parameters, each, short.train_bytes)
    assert best.bits == pytest.approx(short.start * (1 - (1 + best.teaching.gain) * (1 - share)))
    assert best.teaching.share(1.0) == 1.0, "where nothing is learned, nothing is taught"
    surer = short.start * shipped_law(mixed=False).error(best.parameters, each, short.train_bytes)
    assert best.error**2 == pytest.approx(
        surer**2 + (SURE * best.teaching.gain * (1 - share) * short.start) ** 2 + short.spread**2
    )


def test_nobody_teaches_what_is_seen_once_or_can_hardly_be_learned_by_heart() -> None:
    long = replace(FACTS, train_tokens=10**8, train_bytes=10**8, counts=N_GRAMS)
    counted = replace(FACTS, counts=N_GRAMS)
    for one in choices(counted, SPEEDS, 6000, shipped_law(mixed=False)):
        seen = one.passes / one.teaching.longer
        worn = seen * one.parameters / FACTS.train_tokens
        assert not one.teaching.teachers or (seen >= SEEN and worn >= WORN)
    assert not any(one.teaching.teachers for one in choices(long, SPEEDS, 6000, shipped_law(mixed=False)))


def test_of_a_taught_model_it_is_said_that_more_would_be_learned_by_heart_where_there_is_time_for_more() -> (
    None
):
    """Its teachers' trainings take their part of the time."""
    best = choices(SHORT, QUICK, 6000, shipped_law(mixed=False))[0]
    fitting = best.teaching.steps_in(best.most_steps)
    assert best.teaching.teachers and fitting < 0.9 * best.most_steps
    filled = replace(best, steps=fitting * best.teaching.longer)
    assert not filled.has_time_left
    assert replace(filled, steps=filled.steps // 2).has_time_left


def test_a_run_holds_out_what_was_held_out_when_the_text_was_looked_at() -> None:
    best = choices(replace(FACTS, held_out=0.02), SPEEDS, 60, made_up())[0]
    assert [check(best.recipe()).validation, check(best.recipe()).test] == [0.02, 0.02]


def test_no_time_no_choice() -> None:
    assert choices(FACTS, SPEEDS, 0.5 * LEAST_STEPS * 0.01, made_up()) == []
    assert choices(FACTS, SPEEDS, -10, made_up()) == []


def test_a_choice_is_a_recipe() -> None:
    for choice in choices(FACTS, SPEEDS, 600, made_up()):
        recipe = check(choice.recipe())
        assert recipe.training.steps == choice.steps
        assert recipe.model.counts.kind == ("mixing" if compiled() else "kneser-ney")
        assert recipe.test > 0


def test_every_choice_has_its_reason() -> None:
    first, *others = choices(FACTS, SPEEDS, 60, made_up())
    said = reasons(first, others, FACTS, 60, made_up())
    assert {
        "text",
        "tokenizer",
        "model",
        "model.counts",
        "training.steps",
        "model.dropout",
        "instead",
    } == set(said)
    assert "left out" not in said["text"]
    assert all(sentence.endswith(".") for sentence in said.values())
    assert "2.300" in said["model.counts"]


def test_what_the_text_is_read_as_is_in_the_recipe_with_its_reason() -> None:
    said = reasons(choices(FACTS, SPEEDS, 60, made_up())[0], [], FACTS, 60, made_up())["tokenizer"]
    assert said == (
        "bytes or characters (65 tokens of 1.0 bytes): counting alone has 2.300 bits per byte, of byte pairs "
        "2.310."
    )
    close = reasons(
        choices(FACTS, SPEEDS, 60, made_up())[0], [], replace(FACTS, others={"bpe": 2.19}), 60, made_up()
    )
    assert close["tokenizer"].endswith("of byte pairs 2.190, too little better for what new words cost them.")
    pairs = replace(
        FACTS, tokenizer=PAIRS, vocabulary=1900, train_tokens=250_000, counted=2.0, others={"byte": 2.2}
    )
    best = choices(pairs, SPEEDS, 60, made_up())[0]
    recipe = check(best.recipe())
    assert recipe.tokenizer.kind == "bpe" and recipe.expected_vocabulary == 1900
    said = reasons(best, [], pairs, 60, made_up())["tokenizer"]
    assert said.startswith("byte pairs (1,900 tokens of 4.0 bytes)") and "bytes or characters 2.200" in said
    for counts, why in (
        (N_GRAMS, "no time to try bytes or characters."),
        ({"kind": "mixing"}, "which knows words by itself."),
    ):
        alone = replace(pairs, others={}, counts=counts)
        assert reasons(best, [], alone, 60, made_up())["tokenizer"].endswith(why)


def test_learning_is_counted_in_bytes_so_that_tokens_of_any_length_compare() -> None:
    """Four times as many bytes a token, a quarter of the tokens: as much is learned by a quarter of the steps."""
    long = replace(FACTS, train_tokens=250_000)
    one, other = (choices(facts, SPEEDS, 30, made_up())[0] for facts in (FACTS, long))
    assert other.bits < one.bits
    assert other.passes == pytest.approx(other.steps * other.size.step_tokens / 250_000)


@pytest.mark.parametrize(("worn", "dropout"), [(29.9, 0.0), (30.1, 0.1), (149.0, 0.1), (151.0, 0.2)])
def test_dropout_is_for_passes_times_weights_whichever_are_more(worn: float, dropout: float) -> None:
    assert {dropout_for(passes, worn / passes) for passes in (0.5, 3.0, 80.0)} == {dropout}


def test_weights_are_counted_for_each_token_whatever_its_length() -> None:
    long = replace(FACTS, train_tokens=40_000, train_bytes=400_000)
    found = choices(long, SPEEDS, 30, made_up(), taught=False)
    for one in found:
        assert one.dropout == dropout_for(one.passes, one.parameters / 40_000)
    assert any(one.dropout != dropout_for(one.passes, one.parameters / 400_000) for one in found)


def test_documents_that_were_left_out_are_said() -> None:
    (first, *_), facts = choices(FACTS, SPEEDS, 60, made_up()), replace(FACTS, documents=40, duplicates=1200)
    assert reasons(first, [], facts, 60, made_up())["text"] == (
        "1,000 kB to learn from, of 65 different characters, in 40 documents; 1,200 more stood there before and were "
        "left out."
    )


def test_a_pilot_makes_the_promise_surer_and_moves_it() -> None:
    law, facts = made_up(), replace(FACTS, pilot_steps=1200)
    expected = law.share(*pilot_point(facts))
    alone, alike, apart = (
        choices(replace(facts, piloted=share), SPEEDS, 60, law)[0]
        for share in (None, expected, 0.8 * expected)
    )
    assert alike.bits == pytest.approx(alone.bits, rel=0.01) and alike.error < 0.7 * alone.error
    assert apart.bits < 0.9 * alone.bits
    assert (apart.size, apart.steps) == (alone.size, alone.steps)
    said = [
        reasons(alone, [], replace(facts, piloted=factor * expected), 60, law)["pilot"]
        for factor in (1, 0.8, 1.2)
    ]
    assert said[0] == (
        f"the smallest model has {2.2 * expected:.3f} bits per byte after 1,200 steps, {2.2 * expected:.3f} says the "
        "law: as much can be learned here as of other texts."
    )
    told = law.known(0.8 * expected, *pilot_point(facts))
    own = math.exp(told.own_at(*point_of(facts, alone.size, alone.steps))[0])
    assert own > 1.5 and said[1].endswith(f"{own:.1f} times as much can be learned here as of other texts.")
    assert said[2].partition("reckoned that ")[2].startswith("0.")
    assert "pilot" not in reasons(alone, [], FACTS, 60, law)


def test_a_pilot_chooses_nothing() -> None:
    """Of an odd text what it tells fades with the way, which alone would say that less training is better."""
    law, facts = shipped_law(mixed=False), replace(FACTS, pilot_steps=600, counts=N_GRAMS)
    odd = replace(facts, piloted=law.share(*pilot_point(facts)) ** 6)
    for minutes in (1, 10, 100):
        plain, told = (choices(each, SPEEDS, 60 * minutes, law) for each in (facts, odd))
        assert [(each.size, each.steps, each.teaching) for each in told] == [
            (each.size, each.steps, each.teaching) for each in plain
        ]
        assert told[0].bits < plain[0].bits
        near = [number for number, each in enumerate(plain) if each.size in SIZES[:2]]
        assert near and all(told[each].bits < plain[each].bits for each in near), "of all choices it tells"


def test_what_a_pilot_tells_of_a_taught_model_is_of_the_steps_of_each_training() -> None:
    law = shipped_law(mixed=False)
    facts = replace(SHORT, train_tokens=160_000, train_bytes=160_000, pilot_steps=1200)
    share = 0.9 * law.share(*pilot_point(facts))
    best = choices(replace(facts, piloted=share), QUICK, 6000, law)[0]
    assert best.teaching.longer > 1
    alone = law.known(share, *pilot_point(facts)).share(*point_of(facts, best.size, best.steps_of_each))
    assert best.bits == pytest.approx(facts.start * best.teaching.share(alone))


def test_the_law_is_asked_by_bytes_of_what_is_learned_and_of_the_text() -> None:
    facts, size = replace(FACTS, train_tokens=250_000), SIZES[0]
    assert point_of(facts, size, 10) == (parameters_of(size, 65), 10 * size.step_tokens * 4, 1_000_000)


def test_of_random_letters_nothing_is_promised_beyond_counting() -> None:
    noise = replace(FACTS, idle=True)
    found = choices(noise, SPEEDS, 60, made_up())
    assert {each.bits for each in found} == {FACTS.start}
    harder = choices(replace(noise, drift=0.1), SPEEDS, 60, made_up())
    assert {each.bits for each in harder} == {FACTS.start + 0.1}
    said = reasons(found[0], [], noise, 60, made_up())["model.counts"]
    assert "a context mixer that reads on has 2.300 bits per byte" in said
    assert said.endswith("so there is next to nothing to learn.")
    without = reasons(found[0], [], replace(FACTS, counts=N_GRAMS), 60, made_up())["model.counts"]
    assert "the best n-gram and what the text has said so far have 2.300 bits per byte" in without


def test_what_is_promised_is_of_the_test_split() -> None:
    plain, drifting = (choices(replace(FACTS, drift=drift), SPEEDS, 60, made_up())[0] for drift in (0.0, 0.2))
    assert drifting.bits == pytest.approx(plain.bits * 2.4 / 2.2)
    assert drifting.steps == plain.steps and drifting.error == plain.error


def test_sizes_are_timed_while_that_is_short_and_reckoned_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Size] = []
    now = 0.0

    def measure(size: Size) -> float:
        nonlocal now
        asked.append(size)
        now += STEPS_MEASURED * SPEEDS[size]
        return SPEEDS[size]

    monkeypatch.setattr(choose.time, "monotonic", lambda: now)
    seconds = 0.7
    found = step_times(measure, vocabulary=65, seconds=seconds)
    assert list(found) == list(SIZES)
    assert 1 <= len(asked) < len(SIZES) and asked == list(SIZES[: len(asked)])
    last, first_reckoned = asked[-1], SIZES[len(asked)]
    ratio = operations(first_reckoned, 65) / operations(last, 65)
    assert found[first_reckoned] == pytest.approx(SPEEDS[last] * ratio)
    alone = STEPS_MEASURED * found[first_reckoned]
    assert alone < seconds < now + alone, "there would be time for this one, but not after the others"
    assert list(step_times(measure, vocabulary=65, seconds=0.0)) == list(SIZES), "one is measured in any case"


def test_the_sizes_grow() -> None:
    counts = [parameters_of(size, 65) for size in SIZES]
    assert counts == sorted(counts)
    assert 5e4 < counts[0] < 2e5 and 1e7 < counts[-1] < 2e7
    assert [dropout_for(passes, 4) for passes in (1, 10, 50)] == [0.0, 0.1, 0.2]
    assert [dropout_for(10, weights) for weights in (1, 10, 50)] == [0.0, 0.1, 0.2]
