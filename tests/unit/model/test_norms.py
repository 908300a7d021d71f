"""The norm with a backward pass of its own beside torch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from octavo.model.norms import rms_norm


@pytest.mark.parametrize("shape", [(7,), (2, 3, 16), (2, 4, 5, 8)])
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_equals_torch(shape: tuple[int, ...], eps: float) -> None:
    torch.manual_seed(1)
    x, gradient = torch.randn(shape), torch.randn(shape)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = rms_norm(ours, eps=eps)
    z = F.rms_norm(theirs, shape[-1:], eps=eps)
    y.backward(gradient)
    z.backward(gradient)
    torch.testing.assert_close(y, z, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)


def test_gradient_by_differences() -> None:
    torch.manual_seed(2)
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rms_norm(x, eps=1e-6), (x,))


def test_zeros_stay_finite() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    rms_norm(x, eps=1e-6).sum().backward()
    assert torch.isfinite(x.grad).all()
