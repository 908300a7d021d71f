"""Tokenizers side by side on one text: what each makes of it, how fast, and what it loses.

Each is learned from the first 90 % of the text and measured on the rest, which it has not seen.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from octavo.config import check
from octavo.config.parts import PartOf
from octavo.errors import ConfigError, CorpusError, OctavoError
from octavo.tokenizers.base import Tokenizer
from octavo.tokenizers.config import TokenizerConfig

DEFAULT = ("char", "word", "bpe:512", "bpe:4096", "byte")
HELD_OUT = 0.1
REPEATS = 5
TIMED = 4_000_000
"""Characters that are encoded for the timing, at most."""
CHECKED = 200_000
"""Characters of a text with unknown words in which other losses are looked for, at most."""


@dataclass(frozen=True)
class Row:
    """One tokenizer on the held-out text.

    Attributes:
        name: as it was asked for.
        problem: why it could not be measured, in a sentence; all else is None then.
        vocabulary: tokens that it knows.
        tokens_per_byte, bytes_per_token: on the text in UTF-8.
        fertility: tokens for each word, a word being what stands between white space.
        unknown: share of the tokens that stand for what the vocabulary lacks.
        encode_speed, decode_speed: million bytes of text a second; the median of several repeats.
        loses: what `decode` does not bring back; empty where every character comes back.
        embedding: numbers in an embedding table of `width`; a head of its own has as many once more.
    """

    name: str
    problem: str | None = None
    vocabulary: int | None = None
    tokens_per_byte: float | None = None
    bytes_per_token: float | None = None
    fertility: float | None = None
    unknown: float | None = None
    encode_speed: float | None = None
    decode_speed: float | None = None
    loses: tuple[str, ...] = ()
    embedding: int | None = None


def tokenizer_of(name: str) -> TokenizerConfig:
    """The tokenizer that a short form names: `kind`, `kind:value` for its first option (bpe:512, word:5000,
    gpt2:FOLDER), or `kind:option=value,option=value`.

    What a vocabulary lacks is counted here, not refused: `unknown` is `token` where it is not given.
    Raises ConfigError.
    """
    kind, colon, options = name.partition(":")
    config = PartOf("tokenizer").named(kind)
    tree: dict[str, Any] = {"kind": kind}
    fields = [field for field in config.model_fields if field not in ("kind", "special")] if config else []
    if colon and not options:
        raise ConfigError(
            f"'{name}' ends in a colon without an option.", remedy=f"{kind}, or such as bpe:512"
        )
    for number, option in enumerate(options.split(",") if options else ()):
        key, equals, value = option.partition("=")
        if not equals and number:
            raise ConfigError(
                f"'{name}': '{option}' reads option=value.", remedy="bpe:size=512,min_frequency=3"
            )
        tree[key if equals else next(iter(fields), "size")] = value if equals else option
    if "unknown" in fields:
        tree.setdefault("unknown", "token")
    return cast("TokenizerConfig", check({"tokenizer": tree}).tokenizer)


def tokenizers_of(names: Iterable[str]) -> dict[str, TokenizerConfig]:
    """The tokenizers of several short forms by these; raises ConfigError with every problem at once."""
    found, problems = {}, []
    for name in names:
        try:
            found[name] = tokenizer_of(name)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError("These tokenizers cannot be compared:", problems=problems)
    return found


def compare(
    text: str,
    names: Sequence[str] = DEFAULT,
    *,
    width: int = 128,
    repeats: int = REPEATS,
    report: Callable[[str], None] = lambda sentence: None,
) -> list[Row]:
    """A row for each tokenizer, in the order of their names. One that cannot be built is a row that says why.

    Raises ConfigError for names that name nothing, CorpusError for a text that is too short to be divided.
    """
    configs = tokenizers_of(names)
    train, held = divided(text)
    rows = []
    for name, config in configs.items():
        report(f"{name}: learning and measuring")
        try:
            tokenizer = config.build(lambda: iter([train]), documents=False)
            rows.append(_measured(name, tokenizer, held, width, repeats))
        except OctavoError as error:
            rows.append(Row(name, problem=" ".join(str(error).split())))
    return rows


def divided(text: str) -> tuple[str, str]:
    """The first 90 % of a text and the rest, cut after a white space. Raises CorpusError for less than two words."""
    point = int(len(text) * (1 - HELD_OUT))
    cut = re.compile(r"\s").search(text, point)
    at = cut.end() if cut else point
    train, held = text[:at], text[at:]
    if not train.strip() or not held.strip():
        raise CorpusError(f"The text has {len(text):,} characters, too few to learn from and to measure on.")
    return train, held


def _measured(name: str, tokenizer: Tokenizer, held: str, width: int, repeats: int) -> Row:
    ids = tokenizer.encode(held)
    size, words = len(held.encode()), len(held.split())
    unknown_id = tokenizer.unknown
    unknown = 0.0 if unknown_id is None or not len(ids) else float((ids == unknown_id).mean())
    timed = held[:TIMED]
    some = tokenizer.encode(timed)
    timed_bytes = len(timed.encode())
    # What is unknown is lost in any case; whether anything else is, a text without it shows.
    known = _known(held[:CHECKED], tokenizer, unknown_id) if unknown else held
    lost = lost_by(known, tokenizer.decode(tokenizer.encode(known)))
    return Row(
        name=name,
        vocabulary=tokenizer.vocab_size,
        tokens_per_byte=len(ids) / size,
        bytes_per_token=size / max(1, len(ids)),
        fertility=len(ids) / words,
        unknown=unknown,
        encode_speed=timed_bytes / 1e6 / _median_seconds(lambda: tokenizer.encode(timed), repeats),
        decode_speed=timed_bytes / 1e6 / _median_seconds(lambda: tokenizer.decode(some), repeats),
        loses=(*(("what it does not know",) if unknown else ()), *lost),
        embedding=tokenizer.vocab_size * width,
    )


def _known(text: str, tokenizer: Tokenizer, unknown_id: int | None) -> str:
    """The text without the words in which something is unknown."""
    covers = cache(lambda word: unknown_id not in tokenizer.encode(word))
    return "".join(space + word for space, word in re.findall(r"(\s*)(\S+)", text) if covers(word))


def lost_by(text: str, back: str) -> tuple[str, ...]:
    """What is lost on the way from a text through its ids and back: nothing, spacing, case, or characters."""
    if back == text:
        return ()
    bare, bare_back = ("".join(one.split()) for one in (text, back))
    if bare == bare_back:
        return ("spacing",)
    if bare.lower() == bare_back.lower():
        spaced = text.lower() == back.lower()
        return ("case",) if spaced else ("case", "spacing")
    return ("characters",)


def _median_seconds(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return max(statistics.median(taken), 1e-9)  # a clock may stand still over a very short text
