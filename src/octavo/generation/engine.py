"""The generation engine: it continues prompts, token by token, in the slots of a decoder."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, get_args

from octavo.errors import InputError
from octavo.generation.decoder import Decoder
from octavo.generation.drafts import Drafts
from octavo.generation.network import Network
from octavo.generation.sampling import BYTES, Precision, Sampling
from octavo.generation.streams import Prompt, Sample, Stream, Streams, TextRequest
from octavo.util.memory import available_memory, refuse_beyond_memory, room

if TYPE_CHECKING:
    from octavo.generation.constrain import Referee
    from octavo.model.base import LanguageModel
    from octavo.tokenizers import Tokenizer

DRAWN = 28  # bytes for each entry of the vocabulary: logits, and in double what they are turned into
WRITTEN = 1000  # bytes that a finished text takes at least


def fastest_decoder(model: LanguageModel | Network) -> type[Decoder]:
    """What decodes this model fastest here, unless its kind names a decoder of its own."""
    if isinstance(model, Network):
        from octavo.generation.kernel import KernelDecoder

        return KernelDecoder
    if model.decoder is not None:
        return model.decoder
    from octavo.generation.native import NativeDecoder

    if NativeDecoder.fits(model):
        return NativeDecoder
    from octavo.generation.cuda_graph import RecordedDecoder

    if RecordedDecoder.fits(model):
        return RecordedDecoder
    from octavo.model.base import LanguageModel

    if type(model).new_cache is LanguageModel.new_cache:
        from octavo.generation.full import FullDecoder

        return FullDecoder
    from octavo.generation.cached import CachedDecoder

    return CachedDecoder


class Engine:
    """A model with its tokenizer, ready to generate text.

    `precision`: bfloat16 is faster and rounds the numbers that are multiplied, int8 faster still and rounds them to
    eight bits, with a scale for each row, so that a text may turn out another. `referee`: only what it lets through is
    written.
    """

    def __init__(
        self,
        model: LanguageModel | Network,
        tokenizer: Tokenizer,
        *,
        precision: Precision = "float32",
        referee: Referee | None = None,
    ) -> None:
        if precision not in get_args(Precision):
            raise InputError(
                f"There is no precision {precision!r} to write with.", remedy=", ".join(get_args(Precision))
            )
        self.model, self.tokenizer, self.precision, self.referee = model, tokenizer, precision, referee

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids of the document start and the prompt; an empty prompt is the document start alone. Ids stay as they are.

        Raises TokenizerError for characters or words that the vocabulary lacks, InputError for ids that it lacks, and
        where there are none.
        """
        if not isinstance(prompt, str):
            return self._checked([int(token) for token in prompt])
        start = [] if self.tokenizer.start is None else [self.tokenizer.start]
        ids = start + self.tokenizer.encode(prompt).tolist()
        if ids:
            return ids
        return [int(self.tokenizer.encode("\n")[0])] if self._covers("\n") else [0]

    def _checked(self, ids: list[int]) -> list[int]:
        if not ids:
            raise InputError("The prompt holds no ids.", remedy='the prompt "" begins a document')
        size = self.tokenizer.vocab_size
        for token in ids:
            if not 0 <= token < size:
                raise InputError(f"The prompt holds the id {token}; those of this model are 0 to {size - 1}.")
        return ids

    def _covers(self, text: str) -> bool:
        try:
            return len(self.tokenizer.encode(text)) > 0
        except InputError:
            return False

    def samples(
        self,
        prompt: Prompt,
        *,
        tokens: int,
        sampling: Sampling,
        count: int = 1,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> list[Sample]:
        """Several continuations written side by side; sample i of a seed is the same whatever the count."""
        if count < 0:
            raise InputError(f"{count} texts cannot be written.", remedy="count=1 or more")
        self._refuse_beyond_memory(count, tokens=tokens)
        requests = [TextRequest(prompt, seed, index) for index in range(count)]
        written = self.write_each(requests, tokens=tokens, sampling=sampling, stop=stop)
        return in_order(sample for sample, _ in written)

    def write_each(
        self,
        requests: Sequence[TextRequest],
        *,
        tokens: int,
        sampling: Sampling,
        stop: Sequence[str] = (),
        slots: int | None = None,
        within: bool = False,
        decoder: type[Decoder] | None = None,
    ) -> Iterator[tuple[Sample, str]]:
        """Each (sample, new text) as it comes; `sample.finish` is set on its last. A text is the same, to the bit, as
        it would be alone.

        `slots`: how many at once at most, where memory allows it; the others wait until one has ended. `within`: a
        text ends where the context is full after its own prompt, so that all of it can be scored at once. `decoder`:
        the fastest that fits.

        Raises InputError for fewer than one token, a seed that no generator takes, and more texts than memory holds.
        """
        stop = (stop,) if isinstance(stop, str) else stop
        if tokens < 1:
            raise InputError(f"{tokens} tokens are no text.", remedy="tokens=1 or more")
        if wrong := [one.seed for one in requests if not 0 <= one.seed < 2**64]:
            raise InputError(f"{wrong[0]} is no seed.", remedy="a whole number from 0 to 2**64 - 1")
        self._refuse_beyond_memory(len(requests), tokens=tokens)
        if not requests:
            return iter(())
        read = cache(self.prompt_ids)
        ids = [read(one.prompt if isinstance(one.prompt, str) else tuple(one.prompt)) for one in requests]
        fitting = self._fitting(max(map(len, ids)) + tokens)
        at_once = min(len(requests) if slots is None else slots, len(requests), fitting)
        begun = (
            Stream(
                self.tokenizer,
                prompt,
                Sample(one.index, number=number),
                seed=one.seed,
                tokens=min(tokens, self.model.context + 1 - len(prompt)) if within else tokens,
                stop=stop,
                referee=self.referee,
            )
            for number, (one, prompt) in enumerate(zip(requests, ids, strict=True))
        )
        return self._written(begun, at_once, sampling, decoder)

    def _written(
        self, waiting: Iterator[Stream], at_once: int, sampling: Sampling, decoder: type[Decoder] | None
    ) -> Iterator[tuple[Sample, str]]:
        model = self.model if isinstance(self.model, Network) else _ready(self.model)
        kind = decoder or fastest_decoder(model)
        slots = kind(model, slots=at_once, precision=self.precision, window=sampling.window)
        streams = Streams(slots, sampling, Drafts.of(slots))
        while True:
            for stream in islice(waiting, streams.room):
                streams.begin(stream)
            if not streams:
                return
            for stream, piece in streams.step():
                yield stream.sample, piece

    def _refuse_beyond_memory(self, count: int, *, tokens: int) -> None:
        """Raise InputError where so many texts, all of which are kept, need more memory than there is."""
        most = (room() or 0) // WRITTEN
        refuse_beyond_memory(
            count * WRITTEN,
            f"{count:,} texts at once take",
            remedy=f"at most {most:,} at once, or fewer tokens",
        )

    def _fitting(self, positions: int) -> int:
        """How many texts of so many tokens half of the free memory holds while they are written, at least one.

        Raises InputError where there is not enough for one.
        """
        seen = min(positions, self.model.context)
        kept = self.model.cache_numbers
        one = BYTES[self.precision] * kept * seen  # keys and values
        one += DRAWN * self.tokenizer.vocab_size  # logits until one is drawn
        refuse_beyond_memory(one, f"A text of {positions:,} tokens takes", remedy="fewer tokens")
        free = available_memory() or room()
        return sys.maxsize if free is None else max(1, free // 2 // one)


def _ready(model: LanguageModel) -> LanguageModel:
    from octavo.model.adapters import merged

    return merged(model.eval())


def in_order(samples: Iterable[Sample]) -> list[Sample]:
    """What `Engine.write_each` yields, once each, in the order of the requests."""
    finished = {sample.number: sample for sample in samples}
    return [finished[number] for number in sorted(finished)]
