"""The slow twin of products in eight bits: of matrices, whose rows were rounded once, and of what attention multiplies,
with rows that are rounded each time, as in decode.c. Everything else stays as it is.

Sums of whole numbers do not depend on their order: of the same row a product is the same to the bit in doubles here, in
the kernel, and on every processor.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.generation.int8 import in_bytes
from octavo.model.attention import ExplicitAttend, FusedAttend, attention_weights

if TYPE_CHECKING:
    from octavo.model.base import LanguageModel

LEAST = 1e-30
"""Of a row's largest number; a row of smaller ones is zero."""


class RoundedLinear(nn.Linear):
    """A linear layer that multiplies whole numbers; its weight holds them, in doubles, in which sums are exact."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        whole, scales = in_bytes(layer.weight.detach().float().cpu().numpy())
        place = layer.weight.device
        self.weight = nn.Parameter(torch.from_numpy(whole).to(place, torch.float64), requires_grad=False)
        self.register_buffer("scales", torch.from_numpy(scales).to(place))

    def forward(self, input: Tensor) -> Tensor:
        whole, scale = rows_in_bytes(input)
        product = F.linear(whole, self.weight).float() * self.scales * scale
        return product if self.bias is None else product + self.bias


class RoundedAttend(nn.Module):
    """Scaled dot-product attention whose two products are of whole numbers. A value's scale goes into its weight."""

    fused = False

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale, self.dropout = scale, 0.0

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = True
    ) -> Tensor:
        """See `ExplicitAttend`."""
        k, v = (each.repeat_interleave(q.size(1) // k.size(1), dim=1) for each in (k, v))  # (B, H, S, D)
        (q, q_scale), (k, k_scale), (v, v_scale) = map(rows_in_bytes, (q, k, v))
        scores = (q @ k.mT).float() * k_scale.mT * q_scale * self.scale  # (B, H, T, S)
        weights = attention_weights(scores, mask, causal=causal)
        whole, scale = rows_in_bytes(weights * v_scale.mT)
        return (whole @ v).float() * scale  # (B, H, T, D)


def rows_in_bytes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (…, K) as whole numbers, in doubles, and what those of each are to be multiplied by (…, 1): no number where
    not all of a row are finite."""
    x = x.float()
    largest = x.abs().amax(dim=-1, keepdim=True)
    finite = largest.isfinite()
    counts = finite & (largest > LEAST)
    whole = torch.where(counts, (x * (127 / largest)).round(), 0.0)
    scale = torch.where(counts, largest / 127, torch.where(finite, 0.0, math.nan))
    return whole.double(), scale


def rounded(model: LanguageModel) -> LanguageModel:
    """A copy that computes as decode.c does in eight bits. Embeddings stay, even tied ones, and of a gate beside counts
    all but what it takes from the network's state."""
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and name not in ("from_known", "out"):
                setattr(parent, name, RoundedLinear(child))
            elif isinstance(child, FusedAttend | ExplicitAttend):
                setattr(parent, name, RoundedAttend(child.scale))
    return model
