"""What a model makes of a batch, and what that is worth. B sequences, T positions, V vocabulary."""

from __future__ import annotations

from torch import Tensor, nn

from octavo.dataset.batch import Batch


def logits_of(model: nn.Module, batch: Batch[Tensor]) -> Tensor:
    """What the model makes of a batch, (B, T, V); it is told of segments where there are some."""
    if batch.segments is None:
        return model(batch.inputs)
    return model(batch.inputs, segments=batch.segments)
