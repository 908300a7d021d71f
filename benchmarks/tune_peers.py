"""Fine-tuning and preference tuning beside `trl`: the same tiny GPT-2 and data, the losses of the first 20 updates.

    python benchmarks/tune_peers.py

It needs `trl` in an interpreter that has Octavo too. The model goes to the other library as an export; that one renders
each conversation by the exported template, pads, masks and optimizes by itself. Both use AdamW with the same numbers.
Seconds are the processor's, both in one process, so that others on the machine hardly count.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import SequentialSampler

from common import finish, print_table
from octavo.config import load_recipe
from octavo.corpus.records.turns import Message, Turns
from octavo.data.batch import Batch
from octavo.export.targets.base import Parcel
from octavo.export.targets.hf import HuggingFace
from octavo.export.weights import weights_of
from octavo.model.base import LanguageModel, build_model
from octavo.tasks.chat.batches import ConversationsConfig
from octavo.tasks.chat.preference_batches import PreferencesConfig
from octavo.tasks.chat.turns import ByTemplate
from octavo.tokenizers import build_tokenizer
from octavo.tokenizers.base import Tokenizer
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.training.loop import training_steps
from octavo.training.objective import Answers, Objective
from octavo.training.step import StepOptions
from octavo.tuning.preference import DirectPreference, DirectPreferenceConfig

STEPS, ROWS, CONTEXT, RATE = 20, 4, 64, 1e-3
WITHIN = 1e-4
SETTINGS = (
    "model.layers=2",
    "model.width=64",
    "model.heads=4",
    f"model.context={CONTEXT}",
    "model.dropout=0",
    "model.qkv_bias=true",
    "tokenizer={kind: byte, special: [" + ", ".join(map(repr, CHAT_TOKENS)) + "]}",
)
FORMS: dict[str, tuple[dict[str, Any], str, float]] = {
    "dpo": ({"form": "dpo"}, "sigmoid", 0.1),
    "dpo by the token": ({"form": "dpo", "by_token": True}, "sigmoid_norm", 2.0),
    "ipo by the token": ({"form": "ipo", "by_token": True}, "ipo", 0.1),
}
"""Ours, theirs, and beta."""


def pairs() -> list[Turns]:
    """Prompts with two answers each, of different lengths."""
    random = np.random.default_rng(4)

    def text(longest: int) -> str:
        return "".join(map(chr, random.integers(97, 123, random.integers(1, longest))))

    return [Turns((Message("user", text(12)),), text(20), text(20)) for _ in range(STEPS * ROWS)]


def fresh() -> tuple[LanguageModel, Tokenizer, Any]:
    """The model, always the same, its tokenizer and its config."""
    recipe = load_recipe("tinystories-gpt2-cpu", SETTINGS)
    tokenizer = build_tokenizer(recipe.tokenizer, lambda: iter(()), documents=True)
    return build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=1), tokenizer, recipe.model


def batches_of(found: Sequence[Turns], tokenizer: Tokenizer, config: Any) -> list[Batch[np.ndarray]]:
    """Batches in the order of the data."""
    made = []
    for step in range(STEPS):
        ids = [ByTemplate(tokenizer).encode(one.text()) for one in found[step * ROWS : (step + 1) * ROWS]]
        starts = np.cumsum([0, *map(len, ids)])[:-1].astype(np.uint64)
        made += config.evaluation(np.concatenate(ids), starts, context=CONTEXT, batch=ROWS, **tokenizer.marks)
    assert len(made) == STEPS, "a batch a step"
    return made


def ours(objective: Objective, batches: Sequence[Batch[np.ndarray]]) -> tuple[list[float], list[float]]:
    """Losses of our loop, and the processor's seconds of each step."""
    model, *_ = fresh()
    objective.compare_with(fresh()[0].eval(), torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    optimizer.param_groups[0]["base_lr"] = RATE
    steps = training_steps(
        model,
        [optimizer],
        lambda step, micro: batches[step],
        steps=range(STEPS),
        seed=1,
        schedule=lambda step: 1.0,
        objective=objective,
        options=StepOptions(clip=1.0),
    )
    losses, marks = [], [time.process_time()]
    for info in steps:
        losses.append(info.loss)
        marks.append(time.process_time())
    return losses, np.diff(marks).tolist()


def theirs(
    trainer: type[Any], config: type[Any], folder: Path, rows: list[dict[str, Any]], **how: Any
) -> Any:
    """The same of the other library's trainer."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    losses: list[float] = []
    marks: list[float] = []

    class InOrder(trainer):  # type: ignore[misc]
        def _get_train_sampler(self, dataset: Any = None) -> Any:
            return SequentialSampler(self.train_dataset)

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            marks.append(time.process_time())
            loss = super().training_step(*args, **kwargs)
            losses.append(float(loss))
            return loss

    with tempfile.TemporaryDirectory() as out:
        given = config(
            output_dir=out,
            max_steps=STEPS,
            per_device_train_batch_size=ROWS,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            max_length=CONTEXT,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            **how,
        )
        made = InOrder(
            model=AutoModelForCausalLM.from_pretrained(folder),
            args=given,
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder),
        )
        with redirect_stdout(sys.stderr):
            made.train()
    return losses, np.diff(marks).tolist()


def as_rows(found: Sequence[Turns], *, preferences: bool) -> list[dict[str, Any]]:
    """The data as the other library takes it."""
    rows = []
    for one in found:
        prompt = [message.as_dict() for message in one.messages]
        sides = (
            {"chosen": one.chosen, "rejected": one.rejected} if preferences else {"completion": one.chosen}
        )
        said = {key: [{"role": "assistant", "content": text}] for key, text in sides.items()}
        rows.append({"prompt": prompt, **said})
    return rows


def compared(name: str, mine: Callable[[], Any], other: Callable[[], Any]) -> dict[str, Any]:
    """A row of the table."""
    (losses, seconds), (others, their_seconds) = mine(), other()
    apart = float(np.abs(np.subtract(losses, others)).max())
    ratio = statistics.median(their_seconds) / statistics.median(seconds)
    return {
        "objective": name,
        "first loss": f"{losses[0]:.6f}",
        "last loss": f"{losses[-1]:.6f}",
        "theirs, last": f"{others[-1]:.6f}",
        "furthest apart": f"{apart:.1e}",
        "their time / ours": f"{ratio:.1f}",
        "agree": "yes" if apart <= WITHIN else "NO",
    }


def main() -> int:
    """Both objectives; 1 if any loss is further apart than it may be."""
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    found, rows = pairs(), []
    model, tokenizer, config = fresh()
    plain = [Turns((*one.messages, Message("assistant", str(one.chosen)))) for one in found]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        HuggingFace().write(
            Parcel(weights_of(model.eval(), config).to(torch.float64), tokenizer, "float32", "tiny"), folder
        )
        sft = partial(ours, Answers(), batches_of(plain, tokenizer, ConversationsConfig(packed=False)))
        chats = as_rows(found, preferences=False)
        rows.append(compared("sft", sft, partial(theirs, SFTTrainer, SFTConfig, folder, chats)))
        both = as_rows(found, preferences=True)
        for name, (options, loss, beta) in FORMS.items():
            objective = DirectPreference(DirectPreferenceConfig(beta=beta, **options))
            mine = partial(ours, objective, batches_of(found, tokenizer, PreferencesConfig()))
            other = partial(theirs, DPOTrainer, DPOConfig, folder, both, loss_type=[loss], beta=beta)
            rows.append(compared(name, mine, other))
    print_table(rows)
    versions = {name: version(name) for name in ("torch", "transformers", "trl")}
    finish({"versions": versions, "steps": STEPS, "within": WITHIN, "rows": rows})
    return int(any(row["agree"] != "yes" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
