"""The loss of every token of a split, at its place, with how many tokens stood before it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.data.batch import Batch
from octavo.evaluation.score import token_losses


class ByPlace(nn.Module):
    """Gives the token 0 a probability by its position alone."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([0.0, 1.0, 2.0]))

    def forward(self, tokens: Tensor, **_: Tensor) -> Tensor:
        first = self.bias[None, :, None].expand(len(tokens), 3, 1)
        return torch.cat((first, torch.zeros_like(first)), dim=-1)


def test_each_loss_stands_at_its_place_beside_how_many_tokens_were_before_it() -> None:
    """The first token of a window has one before the target: itself."""
    zeros = np.zeros((2, 3), np.int64)
    targets, places = zeros.copy(), np.array([[1, 2, 3], [4, 5, -1]])
    targets[1, 2] = -1
    model = ByPlace().train()
    found = token_losses(model, [Batch(zeros, targets, places=places)], 7)
    losses = -F.logsigmoid(torch.tensor([0.0, 1.0, 2.0, 0.0, 1.0])).numpy()
    np.testing.assert_allclose(found.nats, [np.nan, *losses, np.nan], rtol=1e-6)
    assert found.before.tolist() == [0, 1, 2, 3, 1, 2, 0]
    assert model.training, "it is as it was"
