"""The engine, with real tokenizers; models are tiny and random, or follow a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from octavo.config.parts import parts
from octavo.errors import TokenizerError
from octavo.generation import Decoder, Engine, Sample, Sampling, TextRequest, native
from octavo.generation.cached import CachedDecoder
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.tokenizers import Tokenizer

TEXT = "the small bird sees a big tree. ha you ing fly? yes, i ing fly at you!"
T = 8
GREEDY = Sampling(temperature=0)
SAMPLED = Sampling(temperature=1.1, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.1)


@cache
def tokenizer(kind: str, documents: bool = True) -> Tokenizer:
    return parts("tokenizer")[kind]().build(lambda: iter([TEXT]), documents=documents)


@cache
def engine_for(
    kind: str = "char", positions: str = "rotary", context: int = T, documents: bool = True
) -> Engine:
    torch.set_num_threads(1)
    vocabulary = tokenizer(kind, documents)
    config = GPTConfig.model_validate(
        {"layers": 2, "width": 16, "heads": 2, "context": context, "positions": positions}
        | {"initialization": {"kind": "normal", "std": 0.4}}
    )
    return Engine(build_model(config, vocab_size=vocabulary.vocab_size, seed=3), vocabulary)


def script(tokens: Sequence[int]) -> type[Decoder]:
    """A decoder that writes these tokens, whatever it reads; `fed` lists what it was given."""

    class Scripted(FullDecoder):
        fed: list[list[list[int]]] = []  # noqa: RUF012 - one script, one list

        def feed(self, new: Mapping[int, Sequence[int]]) -> Tensor:
            self.fed.append([list(ids) for ids in new.values()])
            logits = torch.zeros(len(new), self.vocabulary)
            logits[:, tokens[len(self.fed) - 1]] = 50.0
            return logits

    return Scripted


def feed(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Tokens (B, T), the rows into the first slots."""
    return decoder.feed(dict(enumerate(tokens.tolist())))


def follow(
    writing: Engine, tokens: Sequence[int], prompt: str = "the", **options
) -> tuple[Sample, list[str]]:
    steps = list(
        writing.write_each(
            [TextRequest(prompt)],
            tokens=options.pop("limit", len(tokens)),
            sampling=GREEDY,
            decoder=script(tokens),
            **options,
        )
    )
    return steps[-1][0], [piece for _, piece in steps]


# Cached and full decoding


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("positions", parts("positions"))
def test_cached_writing_is_full_writing(positions: str, sampling: Sampling) -> None:
    """From no prompt, one that just fits and one that does not, with windows that slide at every place."""
    for context, prompts in {
        1: ["th"],
        2: ["th"],
        3: ["the sma"],
        T: ["", "the smal", "the small bird"],
    }.items():
        writing = engine_for("char", positions, context)
        for prompt in prompts:
            texts = []
            for decoder in (CachedDecoder, FullDecoder):
                asked = [TextRequest(prompt, 5, index) for index in range(2)]
                steps = writing.write_each(asked, tokens=3 * T, sampling=sampling, decoder=decoder)
                done = {sample.index: sample for sample, _ in steps}
                texts.append([(each.ids, each.text, each.finish) for _, each in sorted(done.items())])
            assert texts[0] == texts[1], (context, prompt)


@torch.no_grad()
@pytest.mark.parametrize("first", [1, T - 1, T, T + 1, 3 * T])
def test_both_decoders_give_the_same_logits(first: int) -> None:
    config = GPTConfig.model_validate(
        {"layers": 2, "width": 16, "heads": 2, "context": T, "positions": "rotary"}
    )
    model = build_model(config, vocab_size=23, seed=3).eval()
    tokens = torch.randint(23, (2, first + 5 * T), generator=torch.Generator().manual_seed(0))
    cached, full = CachedDecoder(model, slots=2), FullDecoder(model, slots=2)
    for new in (tokens[:, :first], *tokens[:, first:].split(1, dim=1)):
        assert (feed(cached, new) - feed(full, new)).abs().max() <= 1e-5
        for slot in range(2):
            assert cached.held(slot) == full.held(slot)
            assert 0 < len(cached.held(slot)) <= T


@torch.no_grad()
@pytest.mark.parametrize("first", [1, T, 3 * T])
def test_both_decoders_forget_the_same_tokens_for_ngrams(first: int) -> None:
    """When the window slides, the cache is cleared; what it held last must not reach into the text read anew."""
    config = GPTConfig.model_validate(
        {"layers": 1, "width": 16, "heads": 2, "context": T}
        | {"ngrams": {"kind": "hashed", "longest": 4, "buckets": 97}}
    )
    model = build_model(config, vocab_size=11, seed=2).eval()
    torch.manual_seed(1)
    model.ngrams.weight.normal_()  # it starts at zero, which would hide every mistake
    fast, slow = CachedDecoder(model, slots=2), FullDecoder(model, slots=2)
    for length in (first, *[1] * (3 * T), 3, *[1] * T):
        tokens = torch.randint(0, 11, (2, length))
        torch.testing.assert_close(feed(fast, tokens), feed(slow, tokens), rtol=1e-4, atol=1e-5)


def test_every_token_sees_three_quarters_of_the_context_or_all_that_there_is() -> None:
    decoder = FullDecoder(engine_for().model.eval(), slots=1)
    for written in range(1, 6 * T):
        decoder.feed({0: [0]})
        assert len(decoder.held(0)) >= min(written, 3 * T // 4)


@torch.no_grad()
@pytest.mark.parametrize("decoder", [NativeDecoder, CachedDecoder, FullDecoder])
def test_a_cropped_window_reads_exactly_the_last_tokens_that_fit(decoder: type[Decoder]) -> None:
    if decoder is NativeDecoder and native.compiled() is None:
        pytest.skip("there is no C compiler here")
    model = engine_for().model.eval()
    tokens = torch.randint(
        model.embedding.num_embeddings, (2, 4 * T), generator=torch.Generator().manual_seed(0)
    )
    step = decoder(model, slots=2, window="crop")
    for end in range(1, 4 * T + 1):
        expected = model(tokens[:, max(0, end - T) : end])[:, -1]
        torch.testing.assert_close(feed(step, tokens[:, end - 1 : end]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decoder", [CachedDecoder, FullDecoder, None])
def test_what_is_written_beyond_the_context_follows_the_window(decoder: type[Decoder] | None) -> None:
    """Also one token, which is read anew at every step."""
    writing = engine_for()
    ids = writing.prompt_ids("the small")
    for _ in range(3 * T):
        ids.append(int(writing.model(torch.tensor([ids[-T:]]))[0, -1].argmax()))
    cropped = replace(GREEDY, window="crop")
    steps = writing.write_each([TextRequest("the small")], tokens=3 * T, sampling=cropped, decoder=decoder)
    *_, (sample, _) = steps
    assert sample.ids == ids[-3 * T :][: len(sample.ids)] and len(sample.ids) > T


def test_a_long_prompt_is_read_to_its_end() -> None:
    """Only its last T tokens fit, and all of them count."""
    writing = engine_for(documents=False)
    long = "the small bird sees a big tree"
    assert writing.samples(long, tokens=5, sampling=GREEDY)[0].ids == (
        writing.samples(long[-T:], tokens=5, sampling=GREEDY)[0].ids
    )


@pytest.mark.parametrize("kind", ["char", "byte", "word"])
def test_log_probabilities_are_those_of_a_full_forward(kind: str) -> None:
    writing = engine_for(kind, context=32)
    prompt = "the small bird"
    for sampling in (GREEDY, SAMPLED):  # before temperature and filters
        for sample in writing.samples(prompt, tokens=10, sampling=sampling, count=2, seed=1):
            ids = writing.prompt_ids(prompt)
            with torch.no_grad():
                logits = writing.model(torch.tensor([ids + sample.ids]))[0]
            expected = logits.log_softmax(dim=-1)[len(ids) - 1 : -1].gather(
                1, torch.tensor(sample.ids)[:, None]
            )
            assert sample.log_probabilities == pytest.approx(expected[:, 0].tolist(), abs=1e-4)


# Seeds, counts, limits


def test_a_sample_is_the_same_whatever_the_count() -> None:
    writing = engine_for()
    many = writing.samples("the", tokens=30, sampling=SAMPLED, count=5, seed=2)
    assert [sample.index for sample in many] == [0, 1, 2, 3, 4]
    for index, sample in enumerate(many):
        written = list(writing.write_each([TextRequest("the", 2, index)], tokens=30, sampling=SAMPLED))
        alone = written[-1][0]
        assert (alone.ids, alone.text, alone.finish) == (sample.ids, sample.text, sample.finish)
        assert "".join(piece for _, piece in written) == sample.text
    assert len({tuple(sample.ids) for sample in many}) == 5


def test_seeds_repeat_and_differ() -> None:
    def ids(seed: int) -> list[int]:
        torch.manual_seed(seed + 100)  # a sample depends on no random numbers but its own
        return engine_for().samples("the", tokens=30, sampling=SAMPLED, seed=seed)[0].ids

    assert ids(1) == ids(1) != ids(2)


def test_no_sample_of_one_seed_is_a_sample_of_another() -> None:
    """Neighbouring seeds, such as the repeats of an experiment, share nothing."""
    plain = Sampling()
    texts = [
        tuple(sample.ids)
        for seed in range(5)
        for sample in engine_for().samples("", tokens=12, sampling=plain, count=5, seed=seed)
    ]
    assert len(set(texts)) == 25


def test_greedy_writing_takes_no_seed() -> None:
    texts = {engine_for().samples("the", tokens=30, sampling=GREEDY, seed=seed)[0].text for seed in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize("kind", ["char", "byte", "word"])
@pytest.mark.parametrize("limit", [1, 2, 17])
def test_the_limit_is_kept(kind: str, limit: int) -> None:
    for sample in engine_for(kind).samples("the", tokens=limit, sampling=SAMPLED, count=4, seed=1):
        assert len(sample.ids) == len(sample.log_probabilities) <= limit
        assert sample.finish == ("length" if len(sample.ids) == limit else "end") or sample.ids[-1] == (
            tokenizer(kind).end
        )


def test_writing_leaves_the_random_numbers_of_torch_alone() -> None:
    before = torch.get_rng_state()
    engine_for().samples("the", tokens=10, sampling=SAMPLED)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_is_off_while_writing() -> None:
    writing = engine_for()
    writing.model.train()
    writing.samples("the", tokens=2, sampling=GREEDY)
    assert not writing.model.training


# Ends


@pytest.mark.parametrize("kind", ["char", "byte", "word"])
def test_an_end_token_ends(kind: str) -> None:
    writing = engine_for(kind)
    words = writing.tokenizer.encode("big tree").tolist()
    sample, pieces = follow(writing, [*words, writing.tokenizer.end, *words], limit=50)
    assert sample.ids == [*words, writing.tokenizer.end]
    assert sample.finish == "end"
    assert sample.text == "".join(pieces) == (" big tree" if kind == "word" else "big tree")


def test_a_stream_that_has_ended_does_not_stop_the_others() -> None:
    writing = engine_for()
    samples = writing.samples("the", tokens=200, sampling=SAMPLED, count=12, seed=4)
    lengths = {len(sample.ids) for sample in samples}
    assert len(lengths) > 2 and {sample.finish for sample in samples} >= {"end"}


def test_text_held_back_for_a_stop_string_is_let_out_at_the_end() -> None:
    writing = engine_for()
    for tail, finish in (([], "length"), ([writing.tokenizer.end], "end")):
        tokens = [*writing.tokenizer.encode("a big tr").tolist(), *tail]
        sample, pieces = follow(writing, tokens, stop=["tree"])
        assert sample.text == "".join(pieces) == "a big tr"
        assert sample.finish == finish


def test_text_that_was_no_stop_string_after_all_is_let_out_at_once() -> None:
    writing = engine_for()
    _, pieces = follow(writing, writing.tokenizer.encode("a tri").tolist(), stop=["tree"])
    assert pieces == ["a", " ", "", "", "tri"]


def test_a_stop_string_may_be_split_over_tokens() -> None:
    writing = engine_for("byte")
    tokens = list("größer – schön".encode())
    for stop in ("ß", "– s", "ö", "größer"):
        sample, pieces = follow(writing, tokens, stop=[stop])
        assert sample.text == "".join(pieces) == "größer – schön".split(stop)[0]
        assert sample.finish == "stop"


def test_a_stop_string_over_words() -> None:
    writing = engine_for("word")
    sample, _ = follow(writing, writing.tokenizer.encode("a big tree. yes, you").tolist(), stop=["tree. y"])
    assert sample.text == " a big "
    assert sample.finish == "stop"


def cut(pieces: Sequence[str], stops: Sequence[str]) -> str:
    """The slow twin: look at the whole text after each piece."""
    text = ""
    for piece in pieces:
        text += piece
        places = [text.find(stop) for stop in stops if stop and stop in text]
        if places:
            return text[: min(places)]
    return text


@given(
    st.text("abé–", min_size=1, max_size=20),
    st.lists(st.text("abé–", max_size=4), max_size=3),
    st.sampled_from(["char", "byte"]),
)
def test_stop_strings(text: str, stops: list[str], kind: str) -> None:
    if kind == "char":
        vocabulary = parts("tokenizer")["char"]().build(lambda: iter(["abé–"]), documents=True)
        writing = Engine(engine_for("byte").model, vocabulary)
    else:
        writing = engine_for("byte")
    sample, pieces = follow(writing, writing.tokenizer.encode(text).tolist(), prompt="ab", stop=stops)
    assert sample.text == "".join(pieces) == cut(text, stops)
    assert not any(stop in sample.text for stop in stops if stop)
    assert sample.finish == ("stop" if any(stop and stop in text for stop in stops) else "length")


def test_half_a_character_at_the_limit_is_shown_as_such() -> None:
    sample, _ = follow(engine_for("byte"), list("aé".encode())[:2])
    assert sample.text == "a\N{REPLACEMENT CHARACTER}"


# Prompts


@pytest.mark.parametrize("kind", ["char", "byte", "word"])
def test_an_empty_prompt_starts_a_document(kind: str) -> None:
    writing = engine_for(kind)
    decoder = script([writing.tokenizer.end])
    list(writing.write_each([TextRequest()], tokens=3, sampling=GREEDY, decoder=decoder))
    assert decoder.fed == [[[writing.tokenizer.start]]]
    assert writing.prompt_ids("the")[0] == writing.tokenizer.start


@pytest.mark.parametrize(
    ("kind", "first"), [("byte", ord("\n")), ("char", 0)], ids=["a line break", "the first token"]
)
def test_an_empty_prompt_without_special_tokens(kind: str, first: int) -> None:
    assert engine_for(kind, documents=False).prompt_ids("") == [first]


@pytest.mark.parametrize(("kind", "prompt"), [("char", "the Ωmega"), ("word", "the Ωmega bird")])
def test_a_prompt_outside_the_vocabulary_is_an_error_that_names_it(kind: str, prompt: str) -> None:
    with pytest.raises(TokenizerError, match="Ω"):
        engine_for(kind).samples(prompt, tokens=3, sampling=GREEDY)


def test_words_are_spaced_as_their_neighbours_ask() -> None:
    """The first word after the prompt gets the space, a special token does not; the text holds no prompt."""
    writing = engine_for("word")
    word = writing.tokenizer.encode("tree . ha").tolist()
    assert follow(writing, word, prompt="the big")[0].text == " tree. ha"
    assert follow(writing, word[1:], prompt="the big tree")[0].text == ". ha"
    assert follow(writing, word, prompt="")[0].text == "tree. ha"


def test_a_penalty_counts_the_prompt() -> None:
    writing = engine_for(documents=False)
    first = writing.samples("the", tokens=1, sampling=GREEDY)[0].ids[0]
    prompt = writing.tokenizer.decode([first]) + "the"
    plain = writing.samples(prompt, tokens=40, sampling=GREEDY)[0].ids
    strong = writing.samples(prompt, tokens=40, sampling=Sampling(temperature=0, repetition_penalty=50.0))[
        0
    ].ids
    assert len(set(strong)) > len(set(plain))
    assert not set(strong[:8]) & set(writing.prompt_ids(prompt))
