"""octavo translate: a model of pairs translates lines, scores given pairs, and is judged."""

from __future__ import annotations

import io
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from octavo.cli.common import (
    Json,
    RunPath,
    Which,
    Whole,
    complain,
    say_skipped,
    show_piece,
    show_skipped,
    show_text,
    the_run,
)
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.run.run import Run
    from octavo.tasks.translation.beam import Search
    from octavo.tasks.translation.source import Pair
    from octavo.tasks.translation.translator import Translator

BEAMS, PENALTY = 5, 0.6
Positive = validators.Number(gte=1)
Pairs = list[Path] | None

File = Annotated[
    Path | None, Parameter(help="A file with a source on each line; without it, standard input.")
]
Prompt = Annotated[
    list[str] | None,
    Parameter(
        help="A source, in place of a file.", negative="", consume_multiple=False, allow_leading_hyphen=True
    ),
]
Beams = Annotated[
    Whole, Parameter(help="Hypotheses that are followed at the same time; 1 is greedy.", validator=Positive)
]
Penalty = Annotated[
    float,
    Parameter(
        help="α: scores are log p / ((5 + tokens) / 6)^α. 0 favours short translations.",
        validator=validators.Number(gte=0, lte=10),
    ),
]
Best = Annotated[Whole, Parameter(help="The best N of each source, with their scores.", validator=Positive)]
Average = Annotated[
    Whole, Parameter(help="Use the mean of the last N checkpoints' weights.", validator=Positive)
]
Score = Annotated[
    Pairs,
    Parameter(
        help="Score given pairs instead: two parallel files, a .tsv or a .jsonl.",
        consume_multiple=True,
        negative="",
    ),
]


Judge = Annotated[
    Pairs,
    Parameter(
        help="Judge it on given pairs: BLEU and chrF (extra: translate), beside copying and IBM model 1.",
        consume_multiple=True,
        negative="",
    ),
]
Against = Annotated[
    Path | None,
    Parameter(help="With --judge: another run, compared on the same pairs by a paired bootstrap."),
]


def translate_command(
    run: RunPath = None,
    *,
    text: File = None,
    prompt: Prompt = None,
    beams: Beams = BEAMS,
    length_penalty: Penalty = PENALTY,
    best: Best = 1,
    average: Average = 1,
    score: Score = None,
    judge: Judge = None,
    against: Against = None,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Translate with a model that was trained on pairs: a line in, a line out, as they come.

    --json prints one document on each line. A score is that by which translations are ranked; log_probability is that
    of the whole translation, its end included, in nats.

    For example:

    octavo translate runs/translate-demo --prompt "ha you will see kite?"

    octavo translate runs/de --text new.en --beams 5 --average 5

    octavo translate runs/de --score test.en test.de --json

    octavo translate runs/de --judge test.en test.de --against runs/de-wide

    cat new.en | octavo translate runs/de --beams 1
    """
    from octavo.tasks.translation.beam import Search

    if best > beams:
        raise InputError(f"{best} translations of {beams} beams cannot be given.", remedy=f"--beams {best}")
    given = {"--text": text, "--prompt": prompt, "--score": score, "--judge": judge}
    if len(named := [name for name, value in given.items() if value]) > 1:
        raise InputError(f"{' and '.join(named)} exclude each other.", remedy=f"leave {named[0]} out")
    if against is not None and not judge:
        raise InputError("--against has nothing to do here.", remedy="it goes with --judge")
    for name, changed in (
        ("--best", best != 1),
        ("--beams", beams != BEAMS),
        ("--length-penalty", length_penalty != PENALTY),
    ):
        if changed and (score or (judge and name == "--best")):
            raise InputError(
                f"{name} has nothing to do with {'--score' if score else '--judge'}.", remedy="leave it out"
            )
    loaded = open_translator(the_run(run, prompt=True, text=True), checkpoint, average)
    other = None if against is None else open_translator(the_run(against), checkpoint, average)
    translator = loaded.translator()
    if score:
        return show_scores(translator, given_pairs(score, loaded), json)
    if judge:
        return show_judged(loaded, given_pairs(judge, loaded), Search(beams, length_penalty), other, json)
    return show_lines(translator, text, prompt, Search(beams, length_penalty), best, json)


def open_translator(run: Path, checkpoint: str, average: int) -> Run:
    """A translator, with the mean of its last checkpoints' weights where several are asked for."""
    from octavo.run.run import Run
    from octavo.tasks.translation.average import average as averaged

    loaded = Run.open(run, checkpoint=checkpoint)
    loaded.translator()  # may raise: now, not after the mean
    if average > 1:
        steps = averaged(loaded, average)
        complain(f"{run}: the mean of the checkpoints of steps {', '.join(map(str, steps))}")
    return loaded


def show_lines(
    translator: Translator, text: Path | None, prompt: list[str] | None, search: Search, best: int, json: bool
) -> int:
    """Translations as they come: one a line, or for the best N the score before each, or JSON. A line that cannot be
    translated is an empty one, or null in JSON; then the exit code is 1."""
    from octavo.tasks.translation.lines import Arriving, lines_of, translated
    from octavo.tasks.translation.translator import LISTED, Skipped

    try:
        if text is not None:
            opened = text.open("rb")
        else:  # by a reader of its own, which stays open: none can be closed while a thread waits in it
            opened = nullcontext(io.BytesIO() if prompt else open(0, "rb", closefd=False))  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{text or 'standard input'} cannot be read: {error.strerror}.") from error
    with opened as file:
        name = "--prompt" if prompt else str(text or "standard input")
        lines = prompt or (lines_of(file, name) if text is not None else Arriving(lines_of(file, name)))
        skipped = count = 0
        for count, (source, translations) in enumerate(
            translated(translator, lines, search, name=name), start=1
        ):
            if isinstance(translations, Skipped):
                skipped += 1
                say_skipped([translations][: skipped <= LISTED], 0, count)
                if json:
                    put({"source": source, "translations": None, "skipped": translations.why})
                else:
                    show_piece("", end="\n")
            elif json:
                put({"source": source, "translations": [one.as_dict() for one in translations[:best]]})
            elif best == 1:
                show_piece(translations[0].text if translations else "", end="\n")
            else:
                show_piece(
                    "".join(f"{one.found.score:.4f}\t{one.text}\n" for one in translations[:best]), end="\n"
                )
    return say_skipped((), skipped, count, "lines")


def show_scores(translator: Translator, pairs: list[Pair], json: bool) -> int:
    """log p(target | source) of each pair, and of all. One that cannot be scored is an empty line, or null in JSON;
    then the exit code is 1."""
    from octavo.tasks.translation.translator import LISTED, Skipped

    scores = translator.scores([(one.source, one.target) for one in pairs], [one.place for one in pairs])
    for pair, one in zip(pairs, scores, strict=True):
        why = one.why if isinstance(one, Skipped) else None
        total, tokens = (None, None) if isinstance(one, Skipped) else one
        if json:
            document = {
                "source": pair.source,
                "target": pair.target,
                "log_probability": total,
                "tokens": tokens,
            }
            put(document if why is None else {**document, "skipped": why})
        else:
            show_text("" if why else f"{total:.4f}\t{tokens}\t{pair.source}\t{pair.target}")
    skipped = [one for one in scores if isinstance(one, Skipped)]
    scored = [one for one in scores if not isinstance(one, Skipped)]
    if scored:
        whole, count = (sum(each) for each in zip(*scored, strict=True))
        complain(f"{len(scored):,} pairs, {-whole / count:.4f} nats per target token")
    return say_skipped(skipped[:LISTED], len(skipped), len(pairs))


def given_pairs(paths: list[Path], run: Run) -> list[Pair]:
    """The pairs in files, from the fields that the run learned from where it names some. Raises InputError where there
    are none."""
    from octavo.corpus.files import Spool, find_files
    from octavo.tasks.translation.source import FIELDS, read_pairs

    files = find_files([str(path) for path in paths], lambda _: True, Spool(), complain)
    fields = getattr(run.config.corpus, "fields", FIELDS)
    pairs = list(read_pairs(files, fields, "auto", complain))
    if not pairs:
        raise InputError(f"{paths[0]} holds no pairs.")
    return pairs


def show_judged(run: Run, pairs: list[Pair], search: Search, other: Run | None, json: bool) -> int:
    """BLEU and chrF of the run and of the baselines, and how two runs differ."""
    from octavo.cli.common import print_json, print_table, show
    from octavo.tasks.translation.systems import compared
    from octavo.util.records import plain

    result = compared(run, other, pairs, search, report=complain)
    code = show_skipped(plain(result))
    if json:
        print_json(plain(result))
        return code
    rows = [
        [name, f"{one.bleu.score:.2f}", f"{one.chrf.score:.2f}", f"{one.tokenized_bleu.score:.2f}"]
        for name, one in result.systems.items()
    ]
    print_table(rows, head=["system", "BLEU", "chrF", "BLEU of tokens, lower case"])
    if result.known:
        show(str(result.known))
    scores = next(iter(result.systems.values()))
    for one in fields(scores):
        show(f"{one.name}: {getattr(scores, one.name).signature}")
    if difference := result.difference:
        low, high = difference.interval
        show(f"BLEU differs by {difference.difference:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}")
    return code


def put(data: dict[str, Any]) -> None:
    """A document on one line."""
    from octavo.util.records import json_text

    show_piece(json_text(data, ensure_ascii=False), end="\n")
