"""A trained model for more tokens, or for fewer positions, than it was trained with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from octavo.errors import InputError
from octavo.model.base import LanguageModel


@torch.no_grad()
def grow_vocabulary(model: LanguageModel, vocab_size: int) -> None:
    """Give a model more tokens, in place: the old ones keep their rows in the embedding and in the head (tied or not),
    and each new one gets the mean of these (Hewitt 2021).

    Raises InputError if the model has not these two by the names `embedding` and `lm_head`.
    """
    count = model.vocab_size
    assert vocab_size >= count, f"{vocab_size} tokens are fewer than {count}"
    if vocab_size == count:
        return
    embedding, head = rows_of(model)
    tied = head.weight is embedding.weight
    embedding.weight = _longer(embedding.weight, vocab_size)
    head.weight = embedding.weight if tied else _longer(head.weight, vocab_size)
    if head.bias is not None:
        head.bias = _longer(head.bias, vocab_size)
    model.vocab_size = embedding.num_embeddings = head.out_features = vocab_size


def rows_of(model: LanguageModel) -> tuple[nn.Embedding, nn.Linear]:
    """A model's embedding and head, each with a row for every token. Raises InputError if it has not these two."""
    embedding, head = getattr(model, "embedding", None), getattr(model, "lm_head", None)
    count = model.vocab_size
    if (
        not isinstance(embedding, nn.Embedding)
        or not isinstance(head, nn.Linear)
        or (embedding.num_embeddings, head.out_features) != (count, count)
    ):
        raise InputError(
            f"A {type(model).__name__} cannot take more than its {count:,} tokens.",
            remedy="its embedding and its head would have to be called `embedding` and `lm_head`",
        )
    return embedding, head


def _longer(rows: Tensor, count: int) -> nn.Parameter:
    mean = rows.double().mean(dim=0, keepdim=True).to(rows.dtype)
    return nn.Parameter(torch.cat((rows, mean.expand(count - len(rows), *rows.shape[1:]))))
