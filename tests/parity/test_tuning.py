"""Fine-tuning beside a loop of another library's parts: transformers' GPT-2 from an export, its template, its loss.

That loop knows nothing of ours but the folder: it renders each conversation by itself, takes as learned what follows
the prompt of each answer, pads instead of packing, and has labels of −100 elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.config import load_recipe
from octavo.corpus.records.turns import Message
from octavo.data.batch import Batch
from octavo.export.targets.base import Parcel
from octavo.export.targets.hf import HuggingFace
from octavo.export.weights import weights_of
from octavo.model.base import build_model
from octavo.tasks.chat.batches import ConversationsConfig
from octavo.tokenizers import build_tokenizer
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate
from octavo.training.loop import training_steps
from octavo.training.objective import Answers
from octavo.training.step import StepOptions

transformers = pytest.importorskip("transformers")
STEPS, ROWS, CONTEXT = 20, 4, 48
SETTINGS = (
    "model.layers=2",
    "model.width=32",
    "model.heads=2",
    f"model.context={CONTEXT}",
    "model.dropout=0",
    "model.qkv_bias=true",  # as GPT-2 has it; else the export would add biases, which then learn
    "tokenizer={kind: byte, special: [" + ", ".join(map(repr, CHAT_TOKENS)) + "]}",
)


def conversations() -> list[list[Message]]:
    random = np.random.default_rng(4)

    def text(longest: int) -> str:
        return "".join(map(chr, random.integers(97, 123, random.integers(1, longest))))

    def turns() -> list[Message]:
        return [Message("user", text(9)), Message("assistant", text(9))]

    return [turns() + turns() * int(random.random() < 0.4) for _ in range(STEPS * ROWS)]


def ours(model: Any, template: ChatTemplate, chats: list[list[Message]]) -> list[float]:
    """Losses of our loop on packed rows."""
    batches = []
    for step in range(STEPS):
        found = [template.render(one).ids for one in chats[step * ROWS : (step + 1) * ROWS]]
        starts = np.cumsum([0, *map(len, found)])[:-1].astype(np.uint64)
        rows = ConversationsConfig().evaluation(
            np.concatenate(found), starts, context=CONTEXT, batch=ROWS, **template.tokenizer.marks
        )
        batches += rows  # all in one
    assert len(batches) == STEPS and min(batch.rows for batch in batches) < ROWS, "some are packed"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for group in optimizer.param_groups:
        group["base_lr"] = 1e-3

    def batch(step: int, micro: int) -> Batch[np.ndarray]:
        return batches[step]

    steps = training_steps(
        model,
        [optimizer],
        batch,
        steps=range(STEPS),
        seed=1,
        schedule=lambda step: 1.0,
        objective=Answers(),
        options=StepOptions(clip=1.0),
    )
    return [info.loss for info in steps]


def theirs(folder: Path, chats: list[list[Message]]) -> list[float]:
    """Losses of the other loop."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).train()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        ids = torch.zeros(ROWS, CONTEXT, dtype=torch.long)
        labels = torch.full((ROWS, CONTEXT), -100)
        seen = torch.zeros(ROWS, CONTEXT, dtype=torch.long)
        for row, messages in enumerate(chats[step * ROWS : (step + 1) * ROWS]):
            plain = [message.as_dict() for message in messages]
            whole = tokenizer.apply_chat_template(plain, return_dict=False)
            ids[row, : len(whole)], seen[row, : len(whole)] = torch.tensor(whole), 1
            for answer in range(1, len(plain), 2):
                begin = len(
                    tokenizer.apply_chat_template(
                        plain[:answer], add_generation_prompt=True, return_dict=False
                    )
                )
                end = len(tokenizer.apply_chat_template(plain[: answer + 1], return_dict=False))
                labels[row, begin:end] = ids[row, begin:end]
        loss = model(ids, attention_mask=seen, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_the_first_losses_of_fine_tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    recipe = load_recipe("tinystories-gpt2-cpu", SETTINGS)
    tokenizer = build_tokenizer(recipe.tokenizer, lambda: iter(()), documents=True)
    model = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=1)
    weights = weights_of(model.eval(), recipe.model).to(torch.float64)
    HuggingFace().write(Parcel(weights, tokenizer, "float32", "tiny"), tmp_path)
    chats = conversations()
    mine, others = ours(model, ChatTemplate(tokenizer), chats), theirs(tmp_path, chats)
    assert mine[0] - mine[-1] > 0.3, "it learns"
    assert mine == pytest.approx(others, abs=1e-4)
