"""Where the time of a step of reinforcement learning goes, and its tokens a second beside `generate` alone.

    python benchmarks/tune_profile.py RUN [--rows 64] [--repeats 3]

RUN is a run of `pidgin-demo`. Seconds are those of the processor (`time.process_time`), one thread, so that a machine
that does other work too changes them little. A step: texts are written, judged and compared with the base, one update
is made.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from common import finish, print_table, spread
from octavo.generation import Engine, Sampling, TextRequest, in_order
from octavo.generation.native import NativeDecoder
from octavo.run.run import Run
from octavo.tuning.policy import PolicyGradient, PolicyGradientConfig
from octavo.tuning.prompts import START
from octavo.tuning.rewards.base import judge
from octavo.tuning.rollouts import Rollouts, Way, as_batch, compared

T = TypeVar("T")


class Watch:
    """Processor seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def of(self, name: str, work: Callable[[], T]) -> T:
        """Do it, and add its time."""
        begin = time.process_time()
        try:
            return work()
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begin


def step(
    number: int, made: Rollouts, learns: PolicyGradient, optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """One step by its parts; `kernel` is a part of `writing`."""
    watch, read = Watch(), NativeDecoder.read
    NativeDecoder.read = lambda self, spans: watch.of("kernel", lambda: read(self, spans))  # type: ignore[method-assign]
    try:
        asked, samples = watch.of("writing", lambda: made.drawn(number, 0))
    finally:
        NativeDecoder.read = read  # type: ignore[method-assign]
    texts = [(one.text, sample.text) for one, sample in zip(asked, samples, strict=True)]
    watch.of("reward", lambda: judge(made.reward, texts))
    engine = Engine(made.model, made.tokenizer)
    batch = as_batch([(engine.prompt_ids(one.prompt), s.ids) for one, s in zip(asked, samples, strict=True)])
    watch.of("comparing with the base", lambda: compared(made.model, made.base, batch))
    learned = made.judged(asked, samples).batch.to("cpu")

    def update() -> None:
        (learns.loss(made.model, learned).total / learned.scored).backward()

    watch.of("forward and backward", update)
    watch.of("update", lambda: (optimizer.step(), optimizer.zero_grad(set_to_none=True)))
    return watch.seconds | {"tokens": float(batch.scored)}


def generated(made: Rollouts, rows: int, seed: int) -> float:
    """Tokens a second of as many texts, written by the base, whose weights never change."""
    begin = time.process_time()
    requests = [TextRequest("", seed, index) for index in range(rows)]
    written = in_order(
        sample
        for sample, _ in Engine(made.base, made.tokenizer).write_each(
            requests, tokens=made.way.tokens, sampling=Sampling(), within=True
        )
    )
    return sum(len(sample.ids) for sample in written) / (time.process_time() - begin)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run, base = Run.open(given.run), Run.open(given.run).model.requires_grad_(False)
    config = PolicyGradientConfig.model_validate({"reward": "ends-happily", "beta": 0.05})
    learns = PolicyGradient(config)
    learns.base = base
    made = Rollouts(
        model=run.model,
        base=base,
        tokenizer=run.tokenizer,
        questions=(START,),
        reward=config.reward.build(),
        rows=given.rows,
        seed=0,
        way=Way(8, "rloo", config.beta, config.kl_in, 1, None, run.config.sampling.tokens),
    )
    optimizer = torch.optim.AdamW(run.model.parameters(), lr=1e-4)
    step(0, made, learns, optimizer)  # warm
    steps, alone = [], []
    for number in range(1, given.repeats + 1):
        steps.append(step(number, made, learns, optimizer))
        alone.append(generated(made, given.rows, number))
    result = summary(steps, alone)
    print_table([{"part": name, "seconds": value} for name, value in result["seconds"].items()])
    finish(result)


def summary(steps: list[dict[str, float]], alone: list[float]) -> dict[str, Any]:
    """Medians with their spread, and the two shares that are promised."""
    names = [name for name in steps[0] if name != "tokens"]
    middle = {name: spread([one[name] for one in steps])["median"] for name in names}
    whole = sum(middle[name] for name in names if name != "kernel")
    heavy = middle["writing"] + middle["comparing with the base"] + middle["forward and backward"]
    kernel = heavy - middle["writing"] + middle["kernel"]
    rates = [one["tokens"] / one["writing"] for one in steps]
    return {
        "seconds": middle,
        "share_of_decoding_and_products": heavy / whole,
        "share_without_the_choice_of_tokens": kernel / whole,
        "rollout_tokens_per_second": spread(rates),
        "generate_tokens_per_second": spread(alone),
        "rollout_beside_generate": spread(rates)["median"] / spread(alone)["median"],
    }


if __name__ == "__main__":
    main()
