"""Report B: a whole GPT from tensors and matrix products alone, to read from top to bottom and to run:

    python -m octavo.model.tensors_only --text shakespeare.txt
It is the model of the recipe `tensors-only`; tests hold the two equal. Only gradients are torch's own work.
T tokens, C width, H heads, D = C / H head width, V vocabulary; "…" is any number of texts side by side, or none.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor


def encode(text: str, symbols: list[str]) -> Tensor:
    """The characters as their places among the sorted symbols, (T,)."""
    number = {symbol: index for index, symbol in enumerate(symbols)}
    return torch.tensor([number[symbol] for symbol in text])


@dataclass
class Parameters:
    """Everything that is learned."""

    embedding: Tensor  # (V, C)
    query: Tensor  # (C, C)
    key: Tensor  # (C, C)
    value: Tensor  # (C, C)
    output: Tensor  # (C, V)
    bias: Tensor  # (V,)


def fresh(vocab_size: int, *, width: int, seed: int) -> Parameters:
    """Standard normal numbers, and a bias of zeros."""
    random = torch.Generator().manual_seed(seed)
    shapes = [(vocab_size, width), *[(width, width)] * 3, (width, vocab_size)]
    drawn = [torch.randn(shape, generator=random) for shape in shapes]
    return Parameters(*(tensor.requires_grad_() for tensor in [*drawn, torch.zeros(vocab_size)]))


def positions(length: int, width: int) -> Tensor:
    """Sines in the even columns, cosines in the odd ones, each pair slower than the one before, (T, C)."""
    place, pair = torch.arange(length)[:, None], torch.arange(0, width, 2)
    speed = (10_000 ** (-pair / width).double()).float()
    angle = (place * speed).double()  # (T, C/2); its sines are rounded once
    return torch.stack((angle.sin(), angle.cos()), dim=2).reshape(length, -1)[:, :width].float()


def normalize(x: Tensor) -> Tensor:
    """Layer norm without parameters: each row of x (…, T, C) with mean 0 and variance 1."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / ((centred**2).mean(dim=-1, keepdim=True) + 1e-5).sqrt()


def softmax(scores: Tensor) -> Tensor:
    """Shares that sum to 1 along the last dimension; less the largest score, no power overflows."""
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def attention(x: Tensor, parameters: Parameters, *, heads: int) -> Tensor:
    """Each position gathers from itself and those before it, (…, T, C) → (…, T, C)."""
    *texts, length, width = x.shape

    def split(y: Tensor) -> Tensor:  # (…, T, C) → (…, H, T, D)
        return y.reshape(*texts, length, heads, width // heads).transpose(-3, -2)

    q, k, v = (split(x @ matrix) for matrix in (parameters.query, parameters.key, parameters.value))
    mask = torch.full((length, length), -math.inf, dtype=x.dtype).triu(
        diagonal=1
    )  # 0 on and below the diagonal
    weights = softmax(q @ k.transpose(-2, -1) / math.sqrt(width // heads) + mask)  # (…, H, T, T)
    return (weights @ v).transpose(-3, -2).reshape(*texts, length, width)


def logits(tokens: Tensor, parameters: Parameters, *, heads: int) -> Tensor:
    """A score for each possible next token, after each of `tokens` (…, T): (…, T, V)."""
    x = parameters.embedding[tokens]  # (…, T, C)
    x = normalize(x + positions(*x.shape[-2:]).to(x.dtype))
    return attention(x, parameters, heads=heads) @ parameters.output + parameters.bias


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """−log softmax(scores)[target] in nats, (…, V) and (…) → (…)."""
    shifted = scores - scores.max(dim=-1, keepdim=True).values
    log_shares = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    return -log_shares.gather(-1, targets[..., None])[..., 0]


def update(loss: Tensor, parameters: Parameters, *, rate: float) -> float:
    """Plain gradient descent: one step down; returns the loss before it."""
    loss.backward()
    with torch.no_grad():
        for tensor in vars(parameters).values():
            tensor -= rate * tensor.grad
            tensor.grad = None
    return loss.item()


def by_prefix(
    tokens: Tensor, parameters: Parameters, *, context: int, heads: int, rate: float, stride: int = 1
) -> Iterator[float]:
    """The report's way: one update for each prefix of each window of context + 1 tokens. Yields each loss."""
    for begin in range(0, len(tokens) - context, stride):
        for end in range(begin + 1, begin + context + 1):
            last = logits(tokens[begin:end], parameters, heads=heads)[-1]
            yield update(cross_entropy(last, tokens[end]), parameters, rate=rate)


def by_window(
    tokens: Tensor, parameters: Parameters, *, context: int, heads: int, rate: float, stride: int = 1
) -> Iterator[float]:
    """All prefixes of a window at once: the mask lets each position see its own prefix only. Yields mean losses.

    Their losses are added up, so that one update goes about as far as the T that it stands for.
    """
    for begin in range(0, len(tokens) - context, stride):
        window = tokens[begin : begin + context + 1]
        losses = cross_entropy(logits(window[:-1], parameters, heads=heads), window[1:])
        yield update(losses.sum(), parameters, rate=rate) / context


@torch.no_grad()
def greedy(prompt: Tensor, parameters: Parameters, *, context: int, heads: int, count: int) -> Tensor:
    """`prompt` and `count` tokens more, each the likeliest after the last `context` ones (`sampling.window: crop`)."""
    tokens = prompt
    for _ in range(count):
        best = logits(tokens[-context:], parameters, heads=heads)[-1].argmax()[None]
        tokens = torch.cat((tokens, best))
    return tokens


if __name__ == "__main__":
    torch.set_num_threads(1)  # matrices this small are slower on several
    arguments = argparse.ArgumentParser(description="Train report B's model on a text, and let it write.")
    arguments.add_argument("--text", type=Path, required=True)
    text = arguments.parse_args().text.read_text(encoding="utf-8")
    symbols, shape = sorted(set(text)), {"context": 10, "heads": 5}
    learned = fresh(len(symbols), width=60, seed=0)
    for loss in by_window(encode(text[:50_000], symbols), learned, **shape, rate=0.001, stride=10):
        sys.stdout.write(f"\rloss {loss:6.2f}")
    written = greedy(encode("To be or not ", symbols), learned, **shape, count=100)
    sys.stdout.write("".join(["\n", *(symbols[index] for index in written), "\n"]))
