"""Texts come, go and are cut off at any time, and each is to the bit what `Engine.write` writes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.config.parts import parts
from octavo.generation import Decoder, Engine, Sample, Sampling, TextRequest, native
from octavo.generation.cached import CachedDecoder
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.generation.streams import Stream
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.serving.scheduler import Adjustment, Job, Scheduler, running
from unit.generation.guesses import Knowing, undrafted
from unit.model import preferences

TEXT = "the small bird sees a big tree."
T = 24
KINDS = [NativeDecoder, CachedDecoder, FullDecoder]
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"positions": "rotary"},
    "what was said": {"counts": {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": 12}},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 3, "buckets": 29}},
}
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.0),
    Sampling(temperature=1.1, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.1),
]


@cache
def engine_for(shape: str = "plain") -> Engine:
    torch.set_num_threads(1)
    tokenizer = parts("tokenizer")["char"]().build(lambda: iter([TEXT]), documents=True)
    options = {"layers": 2, "width": 16, "heads": 2, "context": T, **SHAPES[shape]}
    config = GPTConfig.model_validate(options | {"initialization": {"kind": "normal", "std": 0.4}})
    model = build_model(config, vocab_size=tokenizer.vocab_size, seed=3).eval()
    model.take_text(preferences.text(400, 0, vocabulary=tokenizer.vocab_size, evenly=0.4))
    if "counts" in SHAPES[shape]:
        preferences.trust_what_was_said(model.counts)
    return Engine(model, tokenizer)


def prompts() -> list[tuple[int, ...]]:
    """Some begin alike, for more or fewer ids than are worth sharing; one fills the context."""
    whole = engine_for().prompt_ids(TEXT)
    other = [whole[0], *reversed(whole[1:])]
    return [
        tuple(ids) for ids in (whole[:1], whole[:3], whole[:9], whole[:12], whole[:15], whole[:T], other[:15])
    ]


def job_for(engine: Engine, asked: Mapping[str, Any], owner: Any = None, **options: Any) -> Job:
    stream = Stream(
        engine.tokenizer,
        asked["prompt"],
        Sample(asked["index"]),
        seed=asked["seed"],
        tokens=asked["tokens"],
        stop=asked["stop"],
    )
    return Job(stream, asked["sampling"], owner=owner, **options)


def decoder_of(kind: type[Decoder], shape: str, slots: int) -> Decoder:
    if kind is NativeDecoder and native.compiled() is None:
        pytest.skip("there is no C compiler here")
    return kind(engine_for(shape).model, slots=slots)


@cache
def alone(kind: type[Decoder], shape: str, asked: tuple[tuple[str, Any], ...]) -> Sample:
    """What the engine writes for one prompt, without drafts."""
    how = dict(asked)
    seed, index = how.pop("seed"), how.pop("index")
    prompt = how.pop("prompt")
    *_, (sample, _) = engine_for(shape).write_each(
        [TextRequest(prompt, seed, index)], decoder=undrafted(kind), **how
    )
    return sample


asked_for = st.fixed_dictionaries(
    {
        "prompt": st.integers(0, 6),
        "seed": st.integers(0, 2),
        "index": st.integers(0, 1),
        "tokens": st.sampled_from([1, 3, 9, 30]),
        "stop": st.sampled_from([(), ("e",), ("ird", "s ")]),
        "sampling": st.sampled_from(SAMPLINGS),
    }
)
deeds = st.one_of(
    st.tuples(st.just("submit"), asked_for, st.integers(0, 2)),
    st.tuples(st.just("step"), st.integers(1, 6), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 9), st.none()),
)


@settings(max_examples=25)
@pytest.mark.parametrize("kind", KINDS)
@given(
    shape=st.sampled_from([*SHAPES]),
    slots=st.integers(1, 5),
    part=st.sampled_from([1, 5, 64]),
    drafted=st.one_of(st.none(), st.integers(0, 99)),
    schedule=st.lists(deeds, max_size=24),
)
def test_each_text_is_what_it_is_alone(
    kind: type[Decoder],
    shape: str,
    slots: int,
    part: int,
    drafted: int | None,
    schedule: list[tuple[str, Any, Any]],
) -> None:
    """Whatever is guessed of it, too."""
    engine, decoder = engine_for(shape), decoder_of(kind, shape, slots)
    under_way: list[Job] = []
    asked: dict[Job, Mapping[str, Any]] = {}
    texts: dict[Job, str] = {}
    cancelled: set[Job] = set()

    def comes(stream: Stream) -> list[int]:
        job = next(job for job in under_way if job.stream is stream)
        return alone(kind, shape, tuple(asked[job].items())).ids

    decoder.foresees()
    drafts = None if drafted is None else Knowing(decoder, comes, seed=drafted)
    scheduler = Scheduler(decoder, drafts, part=part)

    def step() -> None:
        told = scheduler.step()
        assert len({id(job) for job, _ in told}) == len(told)
        for job, piece in told:
            assert job not in cancelled
            texts[job] += piece

    for deed, what, owner in schedule:
        if deed == "submit":
            what = what | {"prompt": prompts()[what["prompt"]]}
            job = job_for(engine, what, owner)
            scheduler.submit(job)
            under_way.append(job)
            asked[job], texts[job] = what, ""
        elif deed == "step":
            for _ in range(what):
                step()
        elif under_way:
            job = under_way[what % len(under_way)]
            scheduler.cancel(job)
            if job.stream.open:
                cancelled.add(job)
    for _ in range(3000):
        if len(scheduler):
            step()
    assert len(scheduler) == scheduler.active == scheduler.waiting == 0
    for job in under_way:
        if job in cancelled:
            continue
        sample, expected = job.stream.sample, alone(kind, shape, tuple(asked[job].items()))
        assert not job.stream.open
        assert (sample.ids, sample.log_probabilities) == (expected.ids, expected.log_probabilities)
        assert (sample.text, sample.finish, texts[job]) == (expected.text, expected.finish, expected.text)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_leave_scores_biases_and_penalties_as_they_are(kind: type[Decoder], shape: str) -> None:
    engine = engine_for(shape)
    never = dict.fromkeys(engine.tokenizer.ends, -100.0)
    how: list[dict[str, Any]] = [
        {"adjustment": Adjustment(never), "best": 3, "whole": True, "with_prompt": True},
        {"adjustment": Adjustment({**never, 5: 1.5}, presence=1.5, frequency=0.7), "best": 1},
        {"adjustment": Adjustment(never)},
    ]
    jobs: dict[bool, list[Job]] = {}
    for drafted in (False, True):
        decoder = decoder_of(kind, shape, 4)
        decoder.foresees()
        now = jobs[drafted] = [
            job_for(engine, plain(prompts()[3], index=n, tokens=40, sampling=SAMPLINGS[n]), **one)
            for n, one in enumerate(how)
        ]
        knowing = Knowing(decoder, lambda s: jobs[False][s.sample.index].stream.sample.ids)
        scheduler = Scheduler(decoder, knowing if drafted else None)
        for job in now:
            scheduler.submit(job)
        steps = 0
        while len(scheduler):
            scheduler.step()
            steps += 1
        if drafted:
            assert knowing.right > 10 and knowing.wrong > 5 and steps < 40
            assert scheduler.counts["written"] == sum(len(job.stream.sample.ids) for job in now)
    for job, other in zip(*jobs.values(), strict=True):
        assert job.stream.sample == other.stream.sample
        for scores, others in ((job.scores, other.scores), (job.prompt_scores, other.prompt_scores)):
            assert (scores.log_probabilities, scores.best) == (others.log_probabilities, others.best)
            np.testing.assert_array_equal(scores.whole, others.whole)


def plain(prompt: Sequence[int], **options: Any) -> dict[str, Any]:
    how = {"seed": 0, "index": 0, "tokens": 4, "stop": (), "sampling": SAMPLINGS[0]}
    return how | {"prompt": tuple(prompt)} | options


class Counting(FullDecoder):
    """Counts the ids that it is fed, and those of each step."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fed: list[dict[int, int]] = []

    def feed(self, new: Mapping[int, Sequence[int]]) -> Tensor:
        self.fed.append({slot: len(ids) for slot, ids in new.items()})
        return super().feed(new)


def counted(slots: int, **options: Any) -> tuple[Scheduler, Counting]:
    decoder = Counting(engine_for().model, slots=slots)
    return Scheduler(decoder, **options), decoder


def test_63_others_change_nothing() -> None:
    engine = engine_for()
    scheduler = Scheduler(decoder_of(NativeDecoder, "plain", 64))
    asked = [plain(prompts()[n % 7], seed=n, tokens=5 + n % 11) for n in range(64)]
    jobs = [job_for(engine, one, owner=n) for n, one in enumerate(asked)]
    for job in jobs:
        scheduler.submit(job)
    assert len(list(running(scheduler))) == sum(len(job.stream.sample.ids) for job in jobs)
    for job, one in zip(jobs, asked, strict=True):
        expected = alone(NativeDecoder, "plain", tuple(one.items()))
        assert (job.stream.sample.ids, job.stream.sample.log_probabilities) == (
            expected.ids,
            expected.log_probabilities,
        )


def test_a_long_prompt_is_read_in_parts_while_others_write() -> None:
    scheduler, decoder = counted(2, part=4)
    writer = job_for(engine_for(), plain(prompts()[0], tokens=30))
    scheduler.submit(writer)
    scheduler.step()
    reader = job_for(engine_for(), plain(prompts()[6]))
    scheduler.submit(reader)
    for step in range(4):
        told = [job for job, _ in scheduler.step()]
        assert told == ([writer] if step < 3 else [writer, reader])
        assert decoder.fed[-1] == {0: 1, 1: 4 if step < 3 else 3}


def test_a_shared_prefix_is_read_once() -> None:
    """Of texts that come together, of one under way, and of one that has ended."""
    scheduler, decoder = counted(8)
    whole = prompts()[5]
    same = [job_for(engine_for(), plain(whole[:15], index=n)) for n in range(3)]
    longer = job_for(engine_for(), plain(whole[:18]))
    for job in (*same, longer):
        scheduler.submit(job)
    list(running(scheduler))
    assert (
        sum(sum(one.values()) for one in decoder.fed) == 15 + 3 + 4 * 3
    )  # of each four tokens, three are read
    assert scheduler.counts == {"read": 18, "shared": 3 * 15, "written": 16}
    decoder.fed.clear()
    scheduler.submit(job_for(engine_for(), plain(whole[:20])))
    scheduler.step()
    assert decoder.fed == [{4: 2}]


def test_slots_go_to_owners_in_turn() -> None:
    scheduler, _ = counted(2)
    many = [job_for(engine_for(), plain(prompts()[0], seed=n, tokens=2), owner="many") for n in range(6)]
    one = job_for(engine_for(), plain(prompts()[1], tokens=2), owner="one")
    for job in (*many, one):
        scheduler.submit(job)
    order = [job for job, _ in running(scheduler) if not job.stream.open]
    assert order.index(one) <= 2
    assert [job for job in order if job is not one] == many


def test_a_cancelled_text_is_fed_no_more() -> None:
    scheduler, decoder = counted(2)
    job, other = (job_for(engine_for(), plain(prompts()[n], tokens=9)) for n in (3, 6))
    for each in (job, other):
        scheduler.submit(each)
    scheduler.step()
    scheduler.cancel(job)
    decoder.fed.clear()
    list(running(scheduler))
    assert all(set(fed) == {1} for fed in decoder.fed)
    assert job.stream.sample.finish is None


def test_what_waits_can_be_cancelled() -> None:
    scheduler, _ = counted(1)
    first, second = (job_for(engine_for(), plain(prompts()[n]), owner=n) for n in range(2))
    for job in (first, second):
        scheduler.submit(job)
    scheduler.step()
    assert (scheduler.active, scheduler.waiting) == (1, 1)
    scheduler.cancel(second)
    scheduler.cancel(second)
    assert (scheduler.active, scheduler.waiting) == (1, 0)


def test_no_prompt_that_the_context_does_not_hold() -> None:
    scheduler, _ = counted(1)
    for prompt in ((), (1,) * (T + 1)):
        with pytest.raises(ValueError, match="no prompt"):
            scheduler.submit(job_for(engine_for(), plain(prompt)))


# What the model thought


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", [4, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_model(kind: type[Decoder], shape: str, part: int) -> None:
    """Of the prompt as of the answer, and the answer is the same with them."""
    engine, prompt = engine_for(shape), prompts()[4]
    scheduler = Scheduler(decoder_of(kind, shape, 2), part=part)
    asked = plain(prompt, tokens=6)
    job = job_for(engine, asked, best=3, whole=True, with_prompt=True)
    scheduler.submit(job_for(engine, plain(prompts()[1])))
    scheduler.submit(job)
    list(running(scheduler))
    sample, expected = job.stream.sample, alone(kind, shape, tuple(asked.items()))
    assert (sample.ids, sample.log_probabilities) == (expected.ids, expected.log_probabilities)
    ids = [*prompt, *sample.ids]
    with torch.no_grad():
        logs = engine.model(torch.tensor([ids[:-1]]))[0].float().log_softmax(dim=-1)
    found = [*job.prompt_scores.whole, *job.scores.whole]
    np.testing.assert_allclose(np.stack(found), logs.numpy(), atol=2e-5)
    assert job.prompt_scores.log_probabilities[0] is None
    told = [*job.prompt_scores.log_probabilities[1:], *job.scores.log_probabilities]
    assert len(told) == len(found) == len(ids) - 1
    for token, one, row in zip(ids[1:], told, found, strict=True):
        assert one == row[token]
    for (best, values), row in zip([*job.prompt_scores.best[1:], *job.scores.best], found, strict=True):
        assert values == sorted(row.tolist(), reverse=True)[:3] and [row[id] for id in best] == values
    assert job.scores.log_probabilities == sample.log_probabilities


def test_a_prompt_alone_is_scored() -> None:
    scheduler, _ = counted(1)
    job = job_for(engine_for(), plain(prompts()[2]), best=0, with_prompt=True, writes=False)
    scheduler.submit(job)
    assert [(one, piece) for one, piece in running(scheduler)] == [(job, "")]
    assert len(job.prompt_scores.log_probabilities) == len(prompts()[2])
    assert job.stream.sample.finish == "length" and not job.stream.sample.ids


def test_biases_and_penalties_choose_and_leave_the_scores() -> None:
    def written(**how: Any) -> Sample:
        scheduler, _ = counted(1)
        job = job_for(engine_for(), plain(prompts()[2], tokens=12, sampling=SAMPLINGS[1]), **how)
        scheduler.submit(job)
        list(running(scheduler))
        return job.stream.sample

    usual = written()
    first = usual.ids[0]
    without = written(adjustment=Adjustment(bias={first: -100.0}))
    assert first not in without.ids
    assert written(adjustment=Adjustment(bias={5: 100.0})).ids == [5] * 12
    assert written(adjustment=Adjustment(bias={5: 0.0})).log_probabilities == usual.log_probabilities
    shy = written(adjustment=Adjustment(presence=50.0))
    assert len(set(shy.ids)) == len(shy.ids)
    often = written(adjustment=Adjustment(frequency=50.0))
    assert len(set(often.ids)) == len(often.ids)
    logits = torch.zeros(4)
    Adjustment({2: 1.5}, presence=0.5, frequency=0.25).apply(logits, [1, 1, 3])
    assert logits.tolist() == [0.0, -1.0, 1.5, -0.75]


def test_the_helper_of_these_tests_shares_prefixes() -> None:
    """Else half of them would test nothing."""

    def common() -> Iterator[int]:
        for one in prompts():
            for other in prompts():
                yield next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))

    assert {1, 3, 9, 12, 15, T} <= set(common())
