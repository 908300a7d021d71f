"""octavo eval: how good a model is, beside baselines on the same text."""

from __future__ import annotations

from octavo.cli.common import Json, RunPath, Text, Which, print_json, print_table, show


def eval_command(run: RunPath, *, text: Text = None, checkpoint: Which = "best", json: Json = False) -> int:
    """Judge a run's model on its whole validation split, or on another text.

    The baselines place the number: a model above "unigram" has learned nothing from order, one below the best n-gram
    uses context that counting cannot. On its own split the run gets its verdict too: how it learned, whether it recites
    or repeats itself, and what to do (docs/reading-a-report.md).

    For example:

    octavo eval runs/bard

    octavo eval runs/bard --text other-play.txt --json
    """
    from octavo.runs.next_step import next_lines
    from octavo.runs.run import Run

    loaded = Run.open(run, checkpoint=checkpoint)
    result = loaded.evaluate(text)
    if json:
        print_json(result)
        return 0
    rows = [("this model", f"{result['val_loss']:.4f}", f"{result['bits_per_byte']:.3f}")]
    for name, baseline in result["baselines"].items():
        loss = "" if baseline["loss"] is None else f"{baseline['loss']:.4f}"
        rows.append((name.replace("_", " "), loss, f"{baseline['bits_per_byte']:.3f}"))
    rows.sort(key=lambda row: -float(row[2]))
    print_table(rows, head=("", "nats/token", "bits/byte"))
    show()
    show(f"perplexity {result['perplexity']:.3f}, accuracy {result['accuracy']:.1%}, step {result['step']:,}")
    show(f"on {result['tokens']:,} tokens ({result['bytes']:,} bytes); {result['parameters']:,} parameters")
    for number, finding in enumerate(result["findings"]):
        show()
        show(finding["sentence"] if number == 0 else f"evidence: {finding['sentence']}")
        for line in next_lines(result["next"]) if number == 0 else ():
            show(line)
    return 0
