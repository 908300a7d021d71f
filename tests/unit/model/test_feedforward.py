"""Activations of our own against torch's parts."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from octavo.model.feedforward import squared_relu


def test_squared_relu_is_torchs_relu_squared_with_its_gradient() -> None:
    found, expected = (torch.randn(5, 7, generator=torch.Generator().manual_seed(1)) for _ in range(2))
    gradient = torch.randn(5, 7, generator=torch.Generator().manual_seed(2))
    for each in (found, expected):
        each.requires_grad_()
    y, z = squared_relu(found), F.relu(expected).square()
    assert torch.equal(y, z)
    y.backward(gradient)
    z.backward(gradient)
    assert found.grad is not None and expected.grad is not None
    torch.testing.assert_close(found.grad, expected.grad)
