"""Report B from tensors alone and as a recipe of GPT: the same model, number for number."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from octavo.config import Recipe, load_recipe
from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.generation import Engine, Sampling
from octavo.model import tensors_only as twin
from octavo.model.base import build_model
from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer
from octavo.training.loop import training_steps
from octavo.training.objective import NEXT_TOKEN
from octavo.training.step import StepOptions

TEXT = "To be or not to be, that is the question: whether 'tis nobler in the mind to suffer. " * 4
HEADS, CONTEXT, RATE = 5, 10, 0.001
SHAPE = {"heads": HEADS, "context": CONTEXT}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recipe() -> Recipe:
    return load_recipe("tensors-only")


def tokenizer() -> Tokenizer:
    return parts("tokenizer")["char"]().build(lambda: iter([TEXT]), documents=False)


def pair(dtype: torch.dtype = torch.float64, seed: int = 3) -> tuple[GPT, twin.Parameters]:
    """The recipe's model, and the twin with the same numbers."""
    gpt = build_model(recipe().model, vocab_size=len(set(TEXT)), seed=seed).to(dtype)
    return gpt, copied(gpt)


def copied(gpt: GPT) -> twin.Parameters:
    """The model's numbers."""
    query, key, value = gpt.blocks[0].attention.qkv.weight.chunk(3)
    numbers = [gpt.embedding.weight, query.T, key.T, value.T, gpt.lm_head.weight.T, gpt.lm_head.bias]
    return twin.Parameters(*(tensor.detach().clone().requires_grad_() for tensor in numbers))


def assert_equal_weights(gpt: GPT, parameters: twin.Parameters, *, of: str = "data") -> None:
    """Parameters or gradients, 1e-5 apart at most."""

    def read(tensor: Tensor) -> Tensor:
        found = tensor.grad if of == "grad" else tensor.detach()
        assert found is not None
        return found

    query, key, value = read(gpt.blocks[0].attention.qkv.weight).chunk(3)
    for name, ours in {
        "embedding": read(gpt.embedding.weight),
        "query": query.T,
        "key": key.T,
        "value": value.T,
        "output": read(gpt.lm_head.weight).T,
        "bias": read(gpt.lm_head.bias),
    }.items():
        torch.testing.assert_close(read(getattr(parameters, name)), ours, atol=1e-5, rtol=1e-5, msg=name)


def tokens() -> Tensor:
    return twin.encode(TEXT, sorted(set(TEXT)))


def test_it_is_all_of_the_model() -> None:
    gpt, parameters = pair()
    count = sum(tensor.numel() for tensor in vars(parameters).values())
    assert count == sum(parameter.numel() for parameter in gpt.parameters())


def test_the_encoding_is_the_char_tokenizers() -> None:
    assert tokens().tolist() == tokenizer().encode(TEXT).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, 4, 10])
def test_equal_logits_loss_and_gradients(dtype: torch.dtype, length: int) -> None:
    gpt, parameters = pair(dtype)
    inputs, targets = tokens()[:length], tokens()[1 : length + 1]
    expected = gpt(inputs[None])[0]
    found = twin.logits(inputs, parameters, heads=HEADS)
    # Standard normal weights make logits of some hundreds: single precision is 1e-5 of that.
    scale = expected.abs().max().item() if dtype == torch.float32 else 1.0
    torch.testing.assert_close(found, expected, atol=1e-5 * scale, rtol=0)
    loss = twin.cross_entropy(found, targets).mean()
    ours = NEXT_TOKEN.loss(gpt, Batch(inputs[None], targets[None])).total / length
    assert loss.item() == pytest.approx(ours.item(), rel=1e-5)
    loss.backward()
    ours.backward()
    if dtype == torch.float64:
        assert_equal_weights(gpt, parameters, of="grad")


def trained(gpt: GPT, kind: str, *, rate: float, steps: int) -> list[float]:
    """The recipe's own batches, optimizer and loop."""
    settings = recipe()
    batches = parts("batches")[kind].model_validate({"stride": 10, "shuffle": False})
    stream = batches.build(
        tokens().numpy().astype(np.uint16),
        np.zeros(1, np.uint64),
        context=CONTEXT,
        batch=1,
        seed=0,
        start_id=None,
        end_id=None,
    )
    optimizer = settings.training.optimizer.model_copy(update={"learning_rate": rate})
    taken = training_steps(
        gpt,
        optimizer.build(gpt),
        stream.batch,
        steps=range(steps),
        seed=0,
        schedule=settings.training.schedule.build(steps=steps),
        options=StepOptions(clip=settings.training.clip),
    )
    return [info.loss for info in taken]


def test_twenty_updates_by_prefix() -> None:
    assert recipe().training.optimizer.learning_rate == RATE
    gpt, parameters = pair()
    expected = trained(gpt, "prefixes", rate=RATE, steps=20)
    steps = twin.by_prefix(tokens(), parameters, **SHAPE, rate=RATE, stride=10)
    assert [next(steps) for _ in range(20)] == pytest.approx(expected, rel=1e-6)
    assert_equal_weights(gpt, parameters)


def test_twenty_updates_by_window() -> None:
    """A window's losses added up at one rate are their mean at ten times that rate."""
    gpt, parameters = pair()
    expected = trained(gpt, "sliding", rate=RATE * CONTEXT, steps=20)
    steps = twin.by_window(tokens(), parameters, **SHAPE, rate=RATE, stride=10)
    assert [next(steps) for _ in range(20)] == pytest.approx(expected, rel=1e-6)
    assert_equal_weights(gpt, parameters)


def test_a_window_has_the_losses_of_its_prefixes() -> None:
    _, parameters = pair()
    whole = twin.cross_entropy(twin.logits(tokens()[:10], parameters, heads=HEADS), tokens()[1:11])
    for end in range(1, 11):
        last = twin.logits(tokens()[:end], parameters, heads=HEADS)[-1]
        assert twin.cross_entropy(last, tokens()[end]).item() == pytest.approx(whole[end - 1].item())


def test_windows_side_by_side_are_windows_one_by_one() -> None:
    _, parameters = pair()
    block = tokens()[:30].view(3, 10)
    together = twin.logits(block, parameters, heads=HEADS)
    for row, found in zip(block, together, strict=True):
        torch.testing.assert_close(found, twin.logits(row, parameters, heads=HEADS))


PROMPT = "To be or not "
GREEDY = Sampling(temperature=0, window="crop")


def written(gpt: GPT) -> str:
    (sample,) = Engine(gpt, tokenizer()).samples(PROMPT, tokens=100, sampling=GREEDY, seed=0)
    return PROMPT + sample.text


def written_by_twin(parameters: twin.Parameters) -> str:
    symbols = sorted(set(TEXT))
    ids = twin.greedy(twin.encode(PROMPT, symbols), parameters, **SHAPE, count=100)
    return "".join(symbols[index] for index in ids)


def test_equal_greedy_text_after_each_has_learned_by_itself() -> None:
    gpt, parameters = pair()
    trained(gpt, "prefixes", rate=RATE, steps=100)
    steps = twin.by_prefix(tokens(), parameters, **SHAPE, rate=RATE, stride=10)
    for _ in range(100):
        next(steps)
    assert written_by_twin(parameters) == written(gpt)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_greedy_text_in_single_precision(seed: int) -> None:
    gpt, _ = pair(torch.float32, seed)
    trained(gpt, "sliding", rate=RATE, steps=30)
    assert written_by_twin(copied(gpt)) == written(gpt)


def test_the_worked_example() -> None:
    """Report B: row 3 of scores [0, 0, 0.577], then masked."""
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    scores = rows @ rows.T / math.sqrt(3)
    masked = scores + torch.full((4, 4), -math.inf).triu(diagonal=1)
    assert scores[2, :3].tolist() == pytest.approx([0, 0, 0.577], abs=5e-4)
    growth = math.exp(1 / math.sqrt(3))
    expected = [1 / (2 + growth), 1 / (2 + growth), growth / (2 + growth), 0]
    assert twin.softmax(masked)[2].tolist() == pytest.approx(expected, abs=1e-6)


def test_neither_softmax_nor_loss_overflows() -> None:
    scores = torch.tensor([[1e4, 0.0, -1e4]])
    assert twin.softmax(scores).tolist() == [[1, 0, 0]]
    assert twin.cross_entropy(scores, torch.tensor([2])).tolist() == [2e4]


def test_it_stays_tensors_only_and_short() -> None:
    source = Path(inspect.getfile(twin)).read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 150
    tree = ast.parse(source)
    imported = {
        alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name for name in imported if name.startswith("torch")} == {"torch", "torch.Tensor"}
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in used if name.startswith(("torch.nn", "torch.softmax", "torch.optim"))}
    assert not any(name.endswith((".softmax", ".layer_norm", ".log_softmax")) for name in used)


def test_fresh_parameters_are_standard_normal_with_zero_bias() -> None:
    parameters = twin.fresh(65, width=60, seed=1)
    assert not parameters.bias.any()
    assert parameters.query.std().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(parameters.query, twin.fresh(65, width=60, seed=1).query)
