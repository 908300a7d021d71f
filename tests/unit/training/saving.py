"""A small checkpoint, for the tests that damage it and for those that let the disk fail."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from octavo.training.checkpoint import Checkpoint, model_tensors, optimizer_tensors, save_checkpoint


def learner(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small model and its optimizer after one step."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def save(checkpoints: Path, step: int, *, seed: int = 0) -> Checkpoint:
    tokenizer = checkpoints.parent / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    (tokenizer / "tokenizer.json").write_text('{"kind": "made up"}')
    model, optimizer = learner(seed)
    return save_checkpoint(
        checkpoints,
        step,
        weights=model_tensors(model),
        memory=optimizer_tensors([optimizer]),
        state={"step": step, "best_step": step},
        config="seed: 1\n",
        tokenizer=tokenizer,
        version="0.1.0",
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
