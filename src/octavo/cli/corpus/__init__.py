"""octavo corpus: get, clean and look at texts; one file per sub-verb."""

from __future__ import annotations

from cyclopts import App

from octavo.cli.corpus.clean import clean_command
from octavo.cli.corpus.get import get_command
from octavo.cli.corpus.leaks import leaks_command
from octavo.cli.corpus.plant import plant_command
from octavo.cli.corpus.stats import stats_command
from octavo.cli.corpus.vocab import vocab_command
from octavo.cli.corpus.write import write_command

corpus_command = App(
    name="corpus",
    help="Texts: fetch well-known ones by name, clean your own, look at them, or have some written.",
    help_format="plaintext",
)
for name, command in (
    ("get", get_command),
    ("clean", clean_command),
    ("stats", stats_command),
    ("vocab", vocab_command),
    ("leaks", leaks_command),
    ("plant", plant_command),
    ("write", write_command),
):
    corpus_command.command(command, name=name)
