"""The page of the law's fit, for `law_fit.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common import in_markdown
from octavo.auto.law import POINT, TAILS, Law

Row = dict[str, Any]
PAGE = """\
# The law of `octavo train --minutes`{title}

Bits per byte of a model with counts beside it, as a share of what it has before its first step: when
{counts} all that it knows. N parameters, D bytes
learned from, U bytes of the training text:

```text
network = (floor + ((size · (N/10⁶)^−size_power)³ + (data · (D/10⁶)^−data_power)³)^(1/3)) · (U/10⁶)^counted
          + fit · (N/U)^fit_power · (D/U)^passes_power
law     = −blend · ln(exp(−1/blend) + exp(−network/blend))
share   = law ^ own
```

The third power makes a model go over sharply from having read too little to being too small. The longer a text, the
better is counting, which the share is of: that is what *counted* says. In bytes, models of different tokens are alike.

*own* is a number of the text, of how much can be learned of it beside counting: 1 for a text of the middle. It is not
known before, so the promise has room for what it may be, the more, the more is to be learned. Its logarithm is taken as
a line over ln (N·D), whose level and slope differ from text to text. A pilot tells: 300 to 1,200 steps of the smallest
size, a twentieth of the time at most, by Bayes' rule; the further away from it, the less it tells. What is short and
regular, a table's columns or the bars of a tune, is learned in the first steps: a short pilot alone would promise too
much.

"""
RUNS = """\
The runs: sizes of `octavo.auto.family`, on the first 30 kB to 3 MB of texts of several kinds (*law.jsonl*); three or
four runs of each of twelve books in English, Spanish and Italian, five collections of code and one of packages'
pages (*law_few.jsonl*); those that the dial is compared with ([how](regret.md)), ten minutes long at most, by their
best loss (*law_dial.jsonl*); and, to see how far it is off, texts of other kinds (*law_kinds.jsonl*): tunes,
instructions and an interface in JSON, languages and file types in XML, recordings of force plates as columns of
numbers, sentences with their translations. A text is read in the way that counting predicts better, those of the dial
in both, and judged on what follows, 100 kB or a third of it; one run each, one thread.
"""
LARGER = """\
## Larger models

Three runs of larger models, foretold by the law (bits per byte; 1 MB of each text, one run each). They are short, of
one to three passes, and not in the fit.
"""
COMMANDS = """\
```text
python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan short [--read-as pairs] [--lengths 1000000]
python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan few --read-as best --whole
python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan far --read-as best --whole --only tunes
python benchmarks/law.py --texts FOLDER --out runs.jsonl --dial benchmarks/results/regret.jsonl
cd benchmarks/results
python ../law_fit.py --runs law.jsonl law_few.jsonl law_dial.jsonl law_kinds.jsonl \\
    --law ../../src/octavo/auto/law.json --larger law_larger.jsonl --table law.md
```

The runs stand in [law.jsonl](law.jsonl), [law_few.jsonl](law_few.jsonl), [law_dial.jsonl](law_dial.jsonl) and
[law_kinds.jsonl](law_kinds.jsonl), so that more can be added.
"""
MIXING_RUNS = """\
The runs: sizes of `octavo.auto.family`, four to twelve of each text, read as bytes, learned in bfloat16's products
where the processor has them, and judged on what follows, 100 kB or a third of it, by a mixture that reads on; one run
each, one thread. The texts: a play, Shakespeare, prose in German, Italian, Portuguese and Spanish, stories, headers in
C, sources in Python and Go.
"""
MIXING_COMMANDS = """\
```text
python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan "beside a mixer" --whole
python benchmarks/law.py --texts FOLDER --out runs.jsonl --plan "far beside a mixer" --whole --only play german
cd benchmarks/results
python ../law_fit.py --mixing --runs law_mixing.jsonl --law ../../src/octavo/auto/law_mixing.json --table law_mixing.md
```

The runs stand in [law_mixing.jsonl](law_mixing.jsonl), so that more can be added.
"""


def held(table: list[Row], name: str) -> str:
    """How many of the runs of some texts are in the interval."""
    found = [line[name].split(" of ") for line in table if line[name]]
    return f"{sum(int(inside) for inside, _ in found)} of {sum(int(each) for _, each in found)}"


def page(
    table: list[Row], larger: list[Row], law: Law, told: Row, others: Sequence[str], *, mixing: bool
) -> str:
    """The page of results; `others` are the texts that the law is not fitted on."""
    like = [line for line in table if line["text"] not in others]
    alien = [line for line in table if line["text"] in others]
    ends = {name: [f"{end:,.0f}" for end in law.ranges[name]] for name in POINT}
    values = ", ".join(f"{name} {value:.3g}" for name, value in told["values"].items())
    worst = "; ".join(
        f"{each['text']}, {each['length'] / 1000:,.0f} kB, width {each['width']}, {each['steps']:,} steps: "
        f"{each['off']:+.3f}"
        for each in told["worst"][:3]
    )
    head = PAGE.format(
        title=" beside a context mixer" if mixing else "",
        counts="a context mixer that reads on is"
        if mixing
        else "n-grams of all lengths and what the text has said so far, mixed by gates, are",
    )
    not_fitted = (
        f"; of the texts that are not fitted ({', '.join(others)}) {held(alien, 'held')} and "
        f"{held(alien, 'held after it')}. How own numbers lie apart is of the fitted texts, how pilots are off of all "
        "but pidgin, which is made by a rule"
    )
    return (
        f"{head}{MIXING_RUNS if mixing else RUNS}\n## Texts, each left out of the fit\n\n"
        f"{told['runs']} runs of {told['beginnings']} texts. A run is off by "
        f"{law.residual:.3f} (standard deviation) where its text's own number is known. Logarithms of the own numbers "
        f"lie apart as Student's t with {TAILS:g} degrees of freedom and a scale of {law.texts:.2f}, and move by "
        f"{law.bend:.3f} (standard deviation) for each factor of e of N·D. By a pilot they are off by "
        f"{law.beyond:.2f} of themselves more. In the 80 % interval are {held(like, 'held')} runs without a pilot, "
        f"{held(like, 'held after it')} with one{not_fitted if alien else ''}.\n\n"
        f"{in_markdown(table)}\n"
        f"Values: {values}. Furthest off with their text's own number: {worst}.\n\n"
        f"The runs have {' to '.join(ends['parameters'])} parameters, read {' to '.join(ends['bytes'])} bytes of texts "
        f"of {' to '.join(ends['train_bytes'])}. The promise is wider outside.\n\n"
        + (f"{LARGER}\n{in_markdown(larger)}\n" if larger else "")
        + (MIXING_COMMANDS if mixing else COMMANDS)
    )
