"""The writer: goes on from a prompt, token by token, with cached keys and values.

Beyond the context a window slides: when the cache is full, the oldest quarter of it is forgotten and the rest read
again, so every token is written with at least three quarters of the context before it. Or it is cropped: every token is
written with all of the context before it, which is read again each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.generation.int8 import rounded
from octavo.generation.native import NativeDecoder, Precision
from octavo.generation.sampling import Sampling, Window, kept
from octavo.ground.memory import refuse_beyond_memory, room
from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer
from octavo.training.precision import autocast

DRAWN = 28  # bytes for each entry of the vocabulary: logits, and in double what they are turned into

Finish = Literal["length", "end", "stop"]


class NextLogits(Protocol):
    """What yields the logits (B, V) after some more tokens (B, T) of each stream."""

    def __call__(self, tokens: Tensor) -> Tensor: ...


class CachedDecoder:
    """Feeds new tokens only; the fast path."""

    def __init__(
        self, model: GPT, *, batch: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        self.model, self.batch, self.products = _computing(model, precision), batch, _products(precision)
        self.keep = kept(model.context, window)
        self.cache = model.new_cache(batch)
        self.text: Tensor | None = None  # (B, ≤ context) what the cache has read

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:
        held = 0 if self.text is None else self.text.size(1)
        self.text = tokens if self.text is None else torch.cat((self.text, tokens), dim=1)
        if held + tokens.size(1) > self.model.context:
            keep = self.model.context if held == 0 else self.keep
            self.text = tokens = self.text[:, -keep:]
            self.cache.clear()
        with autocast(self.products, tokens.device):
            return self.model(tokens, self.cache)[:, -1].float()


class FullDecoder:
    """Reads the whole window anew for each token; the slow twin with the same windows."""

    def __init__(
        self, model: GPT, *, batch: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        self.model, self.products = _computing(model, precision), _products(precision)
        self.keep = kept(model.context, window)
        self.text: Tensor | None = None

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:
        held = 0 if self.text is None else self.text.size(1)
        self.text = tokens if self.text is None else torch.cat((self.text, tokens), dim=1)
        if self.text.size(1) > self.model.context:
            self.text = self.text[:, -(self.model.context if held == 0 else self.keep) :]
        with autocast(self.products, tokens.device):
            return self.model(self.text)[:, -1].float()


def _computing(model: GPT, precision: Precision) -> GPT:
    return rounded(model) if precision == "int8" else model


def _products(precision: Precision) -> str:
    return "float32" if precision == "int8" else precision


Decoder = type[NativeDecoder] | type[CachedDecoder] | type[FullDecoder]


def fastest_decoder(model: GPT) -> Decoder:
    """What decodes this model fastest here."""
    return NativeDecoder if NativeDecoder.fits(model) else CachedDecoder


@dataclass
class Sample:
    """One continuation as it grows: ids, the model's log-probability of each (nats, before temperature), text."""

    index: int
    ids: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    text: str = ""
    finish: Finish | None = None


class Writer:
    """A model with its tokenizer, ready to write.

    `precision`: bfloat16 is faster and rounds the numbers that are multiplied, int8 rounds the matrices alone, to a
    quarter of their memory, so that a text may turn out another.
    """

    def __init__(self, model: GPT, tokenizer: Tokenizer, *, precision: Precision = "float32") -> None:
        self.model, self.tokenizer, self.precision = model, tokenizer, precision

    def prompt_ids(self, prompt: str) -> list[int]:
        """Ids of the document start and the prompt; an empty prompt is the document start alone.

        Raises TokenizerError for characters or words that the vocabulary lacks.
        """
        start = [] if self.tokenizer.start is None else [self.tokenizer.start]
        ids = start + self.tokenizer.encode(prompt).tolist()
        if ids:
            return ids
        return [int(self.tokenizer.encode("\n")[0])] if self._covers("\n") else [0]

    def _refuse_beyond_memory(self, count: int, *, positions: int) -> None:
        """Raise InputError where so many texts at once, each of so many tokens, need more memory than there is."""
        seen = min(positions, self.model.context)
        kept = sum(2 * block.attention.kv_heads * block.attention.head_width for block in self.model.blocks)
        number = 2 if self.precision == "bfloat16" else 4
        one = (
            number * kept * seen + DRAWN * self.tokenizer.vocab_size
        )  # keys and values; logits until one is drawn
        most = (room() or 0) // one
        refuse_beyond_memory(
            count * one, f"{count:,} texts at once take", remedy=f"at most {most:,} at once, or fewer tokens"
        )

    def _covers(self, text: str) -> bool:
        try:
            return len(self.tokenizer.encode(text)) > 0
        except InputError:
            return False

    def stream(
        self,
        prompt: str,
        *,
        tokens: int,
        sampling: Sampling,
        seed: int = 0,
        stop: Sequence[str] = (),
        index: int = 0,
    ) -> Iterator[str]:
        """Text as it is written, in pieces that can be printed at once."""
        for _, piece in self.write(
            prompt, tokens=tokens, sampling=sampling, seed=seed, stop=stop, first=index
        ):
            if piece:
                yield piece

    def samples(
        self,
        prompt: str,
        *,
        tokens: int,
        sampling: Sampling,
        count: int = 1,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> list[Sample]:
        """Several continuations written side by side; sample i of a seed is the same whatever the count."""
        done: dict[int, Sample] = {}
        for sample, _ in self.write(
            prompt, tokens=tokens, sampling=sampling, count=count, seed=seed, stop=stop
        ):
            done[sample.index] = sample
        return [done[index] for index in sorted(done)]

    def write(
        self,
        prompt: str,
        *,
        tokens: int,
        sampling: Sampling,
        count: int = 1,
        seed: int = 0,
        stop: Sequence[str] = (),
        first: int = 0,
        decoder: Decoder | None = None,
    ) -> Iterator[tuple[Sample, str]]:
        """Each (sample, new text) as it comes; `sample.finish` is set on its last. `decoder`: the fastest that fits."""
        device = next(self.model.parameters()).device
        self.model.eval()
        ids = self.prompt_ids(prompt)
        self._refuse_beyond_memory(count, positions=len(ids) + tokens)
        writing = [_Stream(self.tokenizer, ids, first + i, seed, tokens, stop) for i in range(count)]
        chosen_decoder = decoder or fastest_decoder(self.model)
        step = chosen_decoder(self.model, batch=count, precision=self.precision, window=sampling.window)
        fresh = torch.tensor([ids] * count)
        penalized = sampling.repetition_penalty != 1.0
        seen = torch.zeros(count, self.tokenizer.vocab_size, dtype=torch.bool) if penalized else None
        while any(stream.open for stream in writing):
            logits = step(
                fresh.to(device)
            ).cpu()  # (B, V); chosen on the CPU, for not every accelerator has doubles
            if seen is not None:
                seen.scatter_(1, fresh, True)
            uniform = torch.from_numpy(np.array([stream.uniform() for stream in writing]))
            chosen = sampling.choose(logits, uniform, seen)
            known = logits.log_softmax(dim=-1).gather(1, chosen[:, None])[:, 0]
            for stream, token, log_probability in zip(writing, chosen.tolist(), known.tolist(), strict=True):
                if stream.open:
                    yield stream.sample, stream.take(token, log_probability)
            fresh = chosen[:, None]


class _Stream:
    """One sample's side of the writing: its random numbers, its text, and when it ends."""

    def __init__(
        self, tokenizer: Tokenizer, prompt: list[int], index: int, seed: int, tokens: int, stop: Sequence[str]
    ) -> None:
        self.sample = Sample(index)
        self.tokens, self.stop, self.end = tokens, [text for text in stop if text], tokenizer.end
        self.decoder = tokenizer.decoder()
        for token in prompt:  # so that the first new word is spaced as its neighbour asks
            self.decoder.push(token)
        self.random = np.random.Generator(np.random.Philox(key=[seed, index]))
        self.held = ""  # text that may be the beginning of a stop string
        self.open = True

    def uniform(self) -> float:
        return self.random.random()

    def take(self, token: int, log_probability: float) -> str:
        """Add a token; returns the text that it lets out."""
        self.sample.ids.append(token)
        self.sample.log_probabilities.append(log_probability)
        if token == self.end:
            return self._close("end", self.held + self.decoder.finish())
        text = self.held + self.decoder.push(token)
        last = len(self.sample.ids) >= self.tokens
        if last:
            text += self.decoder.finish()
        cut = min((at for at in (text.find(stop) for stop in self.stop) if at >= 0), default=-1)
        if cut >= 0:
            return self._close("stop", text[:cut])
        if last:
            return self._close("length", text)
        held = max(
            (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0
        )
        self.held = text[len(text) - held :] if held else ""
        return self._let_out(text[: len(text) - held])

    def _close(self, finish: Finish, text: str) -> str:
        self.open = False
        self.sample.finish = finish
        return self._let_out(text)

    def _let_out(self, text: str) -> str:
        self.sample.text += text
        return text
