"""A run on given pairs, beside copying the source and translating word for word, and beside another run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from octavo.corpus.pairs import one_line
from octavo.errors import CorpusError, InputError, TokenizerError
from octavo.evaluation.alignment import WordModel
from octavo.evaluation.judging import bootstrap, judged
from octavo.generation.beam import Search
from octavo.ground.console import Console
from octavo.runs.data import build_dataset
from octavo.runs.run import Run
from octavo.runs.translated import sides
from octavo.translation.lines import translated


def compared(
    run: Run,
    other: Run | None,
    pairs: Sequence[tuple[str, str]],
    search: Search,
    *,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """What `judged` says of each system, and the `difference` between the two runs.

    Raises InputError for what a run cannot read, MissingExtra without sacrebleu.
    """
    sources, references = ([one_line(pair[side]) for pair in pairs] for side in (0, 1))
    judged(references[:1], references[:1])  # may raise: now, not after the translation
    if other is not None and other.path.resolve() == run.path.resolve():
        raise InputError(f"{run.path} cannot be compared with itself.")
    written = {str(run.path): texts(run, sources, search)}
    if other is not None:
        written[str(other.path)] = texts(other, sources, search)
    written["copy of the source"] = sources
    words = word_for_word(run, sources)
    if words is None:
        report("the training text is gone: word for word is left out")
    else:
        written["word for word (IBM model 1)"] = words
    found: dict[str, Any] = {
        "pairs": len(pairs),
        "systems": {name: judged(one, references) for name, one in written.items()},
    }
    if other is not None:
        first, second = (written[str(one.path)] for one in (run, other))
        found["difference"] = bootstrap(first, second, references)
    return found


def texts(run: Run, sources: Sequence[str], search: Search) -> list[str]:
    """A run's best translations."""
    lines = translated(run.translator(), sources, search, name="the sources")
    return [found[0].text if found else "" for _, found in lines]


def word_for_word(run: Run, sources: Sequence[str]) -> list[str] | None:
    """Each source token by the likeliest target token, learned on the run's training pairs; None if these are gone."""
    try:
        dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
    except (CorpusError, TokenizerError):
        return None
    tokenizer = run.tokenizer
    words = WordModel(sides(dataset.train, run.config, tokenizer))
    written = (tokenizer.decode(words.translate(tokenizer.encode_source(source))) for source in sources)
    return [one_line(text) for text in written]
