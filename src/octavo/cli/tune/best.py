"""octavo tune best: a run's own best answers, to learn from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import Force, Whole, WholeSeed, complain, show, the_run
from octavo.cli.tune.ceiling import Count, RewardName
from octavo.errors import InputError


def best_command(
    run: Annotated[Path, Parameter(help="A run that was tuned on conversations.")],
    *,
    reward: RewardName,
    out: Annotated[Path, Parameter(help="The .jsonl file to write.")],
    samples: Count = 8,
    prompts: Annotated[
        Path | None,
        Parameter(help="A file of prompts; default: those of the run's own training conversations."),
    ] = None,
    most: Annotated[
        Whole, Parameter(help="Prompts that are asked, at most.", validator=validators.Number(gte=1))
    ] = 1000,
    pairs: Annotated[
        bool, Parameter(help="Write the best and the worst answer of each, as preferences.", negative="")
    ] = False,
    seed: WholeSeed = 0,
    force: Force = False,
) -> int:
    """Let a run answer each prompt several times, and write its best answers into a file to learn from.

    That is rejection sampling; `octavo tune sft` learns from the file, and with --pairs `octavo tune dpo`.

    For example:

    octavo tune best runs/chat --reward '{kind: length, least: 5, most: 20}' --out best.jsonl

    octavo tune best runs/chat --reward mine.py --pairs --samples 4 --out pairs.jsonl
    """
    from octavo.run.run import Run
    from octavo.tuning.best import best_answers, prompts_for
    from octavo.tuning.rewards.named import named_reward
    from octavo.util.output import Output
    from octavo.util.records import json_text
    from octavo.util.terminal import Console

    config, sentences = named_reward(reward)
    for sentence in sentences:
        complain(sentence)
    run = the_run(run)
    output = Output(out, inputs=[run, *([prompts] if prompts else [])], force=force)
    if out.suffix.lower() != ".jsonl":
        raise InputError(f"{out} would be no .jsonl file.", remedy=f"--out {out.with_suffix('.jsonl')}")
    opened, nats = Run.open(run), math.log(samples) - (samples - 1) / samples
    chosen = best_answers(
        opened,
        config,
        prompts_for(opened, prompts)[:most],
        samples=samples,
        pairs=pairs,
        seed=seed,
        console=Console(),
    )
    with output.writing() as file:
        file.writelines(json_text(record, ensure_ascii=False) + "\n" for record in chosen.records)
    for why, count in chosen.failed.items():
        complain(f"warning: the reward {why}: {count:,} answers have none")
    show(f"{out}: {len(chosen.records):,} records of {chosen.prompts:,} prompts, {samples} answers to each")
    show(
        f"mean reward {chosen.best:.3f}, of all answers {chosen.usual:.3f}; {nats:.2f} nats from the run at most"
    )
    return 0
