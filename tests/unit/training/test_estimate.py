"""An estimated step next to the same step taken for real."""

from __future__ import annotations

from itertools import cycle, product

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from octavo.config.parts import PartConfig, parts
from octavo.data.batch import Batch
from octavo.data.batches import DocumentsConfig
from octavo.model import attention
from octavo.model import config as gpt_config
from octavo.model.adapters import LowRankConfig, NoAdaptersConfig
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.tasks.chat.preference_batches import PreferencesConfig
from octavo.training.checkpoint import optimizer_tensors
from octavo.training.estimate import KEPT_BY_ALLOCATOR, OperationCounter, estimate_step
from octavo.training.memory import bound
from octavo.training.objective import NEXT_TOKEN
from octavo.training.optimizers import AdamWConfig, SGDConfig
from octavo.training.recompute import recompute_blocks
from octavo.tuning.policy import PolicyGradientConfig
from octavo.tuning.preference import DirectPreferenceConfig
from octavo.util.kernels import in_use

V, B = 19, 3
DOCUMENTS = DocumentsConfig(attention="document")
SHAPES: dict[str, dict[str, object]] = {
    "default": {},
    "report E": {"heads": 5, "head_bias": True, "feed_forward": {"kind": "relu", "width": 40}},
    "Llama": {"kv_heads": 2, "positions": "rotary", "norm": "rms", "feed_forward": "swiglu"},
    "attention alone": {"feed_forward": "none", "norm": "none", "output_projection": False},
    "tied": {"tied": True, "qkv_bias": True, "final_norm": False, "embedding_norm": True},
    "post-norm": {"norm_place": "post", "qk_norm": True, "logit_softcap": 10.0, "residual": False},
    "q/k scale": {"kv_heads": 2, "qk_norm": True, "qk_norm_scale": True},
    "dropout": {"dropout": {"attention": 0.1, "projection": 0.2, "feed_forward": 0.3, "embedding": 0.4}},
}


@pytest.fixture(autouse=True)
def torchs_attention(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is estimated is torch's; the kernel of our own needs about as much."""
    if "_kernel_" not in request.function.__name__:
        monkeypatch.setattr(attention, "fits", lambda *_: False)
        monkeypatch.setattr(gpt_config, "reaches", lambda *_: False)


@pytest.fixture(params=SHAPES)
def config(request: pytest.FixtureRequest) -> GPTConfig:
    torch.set_num_threads(1)
    return GPTConfig.model_validate(
        {"layers": 3, "width": 32, "heads": 4, "context": 12} | SHAPES[request.param]
    )


def tokens(config: GPTConfig) -> Tensor:
    return torch.randint(V, (B, config.context), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("config", "kind", "recompute"),
    [
        (shape, kind, recompute)
        for (shape, recompute), kind in zip(product(SHAPES, (False, True)), cycle(parts("optimizer")))
    ],
    indirect=["config"],
)
def test_memory_is_that_of_a_real_step(config: GPTConfig, kind: str, recompute: bool) -> None:
    part = parts("optimizer")[kind]()
    model = build_model(config, vocab_size=V, seed=0).train()
    if recompute:
        recompute_blocks(model)
    optimizers = part.build(model)
    inputs, counter = tokens(config), OperationCounter()
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, Batch(inputs, inputs)).total / inputs.numel()).backward()
    for optimizer in optimizers:
        optimizer.step()
    memory = estimate_step(config, part, vocab_size=V, rows=B, recompute=recompute).memory
    assert memory.weights == sum(p.numel() * p.element_size() for p in model.parameters())
    assert memory.gradients == sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
    states = optimizer_tensors(optimizers)
    assert memory.optimizer == sum(t.numel() * t.element_size() for t in states.values())
    assert memory.gradients + memory.activations >= counter.peak - memory.weights
    assert memory.allocator == min(memory.activations, KEPT_BY_ALLOCATOR)
    together = memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.allocator
    assert memory.total == together


def test_the_peak_is_that_of_a_real_step(config: GPTConfig) -> None:
    """Without momentum the update adds nothing, so the passes alone decide."""
    model = build_model(config, vocab_size=V, seed=0).train()
    inputs, counter = tokens(config), OperationCounter()
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, Batch(inputs, inputs)).total / inputs.numel()).backward()
    memory = estimate_step(config, SGDConfig(), vocab_size=V, rows=B).memory
    assert memory.weights + memory.gradients + memory.activations == counter.peak


@pytest.mark.parametrize(("kind", "recompute"), [("adamw", False), ("muon", True)])
def test_adapters_are_counted_and_what_they_leave_alone_is_not(kind: str, recompute: bool) -> None:
    config = GPTConfig.model_validate({"layers": 3, "width": 32, "heads": 4, "context": 12, "kv_heads": 2})
    adapters, part = LowRankConfig(rank=2), parts("optimizer")[kind]()
    model = build_model(config, vocab_size=V, seed=0).train()
    adapters.attach(model, added=4, seed=0)
    if recompute:
        recompute_blocks(model)
    optimizers = part.build(model)
    inputs, counter = tokens(config), OperationCounter()
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, Batch(inputs, inputs)).total / inputs.numel()).backward()
    for optimizer in optimizers:
        optimizer.step()
    options = {"vocab_size": V, "rows": B, "recompute": recompute}
    memory = estimate_step(config, part, adapters=adapters, added=4, **options).memory
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert memory.weights == 4 * sum(p.numel() for p in model.parameters())
    kept = {
        p.grad.untyped_storage().data_ptr(): p.grad.untyped_storage()
        for p in model.parameters()
        if p.requires_grad
    }
    assert memory.gradients == sum(storage.nbytes() for storage in kept.values())
    assert 4 * learned <= memory.gradients <= 4 * (learned + 2 * V * config.width)
    assert memory.optimizer == sum(t.nbytes for t in optimizer_tensors(optimizers).values())
    assert memory.gradients + memory.activations >= counter.peak - memory.weights
    whole = estimate_step(config, part, **options).memory
    assert memory.optimizer + memory.gradients < whole.optimizer + whole.gradients


@pytest.mark.parametrize("config", ["default", "Llama", "attention alone", "dropout"], indirect=True)
@pytest.mark.parametrize("recompute", [False, True])
def test_the_mask_that_keeps_documents_apart_is_counted(config: GPTConfig, recompute: bool) -> None:
    model = build_model(config, vocab_size=V, seed=0).train()
    if recompute:
        recompute_blocks(model)
    inputs, counter = tokens(config), OperationCounter()
    batch = Batch(inputs, inputs, segments=torch.arange(config.context).expand(B, -1) // 5)
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, batch).total / inputs.numel()).backward()
    options = {"vocab_size": V, "rows": B, "recompute": recompute}
    memory = estimate_step(config, SGDConfig(), batches=DOCUMENTS, **options).memory
    assert memory.weights + memory.gradients + memory.activations == counter.peak
    assert memory.activations > estimate_step(config, SGDConfig(), **options).memory.activations


@pytest.mark.skipif(in_use().native is None, reason="there is no C compiler here")
def test_where_documents_are_apart_no_kernel_spares_the_weights_of_dropped_attention() -> None:
    config = GPTConfig.model_validate({"layers": 2, "width": 32, "heads": 4, "context": 64, "dropout": 0.1})
    model = build_model(config, vocab_size=V, seed=0).train()
    inputs, counter = tokens(config), OperationCounter()
    batch = Batch(inputs, inputs, segments=inputs * 0)
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, batch).total / inputs.numel()).backward()
    memory = estimate_step(config, SGDConfig(), vocab_size=V, rows=B, batches=DOCUMENTS).memory
    assert memory.weights + memory.gradients + memory.activations == counter.peak


@pytest.mark.skipif(in_use().native is None, reason="there is no C compiler here")
@pytest.mark.parametrize("name", ["default", "Llama", "tied", "dropout"])
def test_with_the_kernel_a_step_needs_hardly_more(name: str) -> None:
    shape = {"layers": 3, "width": 64, "heads": 4, "context": 64} | SHAPES[name]
    config = GPTConfig.model_validate(shape)
    model = build_model(config, vocab_size=V, seed=0).train()
    inputs, counter = tokens(config), OperationCounter()
    counter.hold([*model.parameters(), *model.buffers()])
    with counter:
        (NEXT_TOKEN.loss(model, Batch(inputs, inputs)).total / inputs.numel()).backward()
    memory = estimate_step(config, SGDConfig(), vocab_size=V, rows=B).memory
    assert counter.peak <= 1.05 * (memory.weights + memory.gradients + memory.activations)


def test_it_takes_no_memory() -> None:
    """Of a model that no laptop could hold."""
    config = GPTConfig.model_validate({"layers": 4, "width": 12288, "heads": 96, "context": 2048})
    step = estimate_step(config, AdamWConfig(), vocab_size=50_257, rows=32)
    assert step.memory.activations > 1e11


def test_the_quick_bound_is_above(config: GPTConfig) -> None:
    for rows in (1, 64):
        step = estimate_step(config, AdamWConfig(), vocab_size=V, rows=rows, accumulates=True)
        assert bound(config, AdamWConfig(), vocab_size=V, batch=rows) >= step.memory.total


def test_flops_are_those_counted_from_the_config() -> None:
    """But for one thing: fused attention multiplies queries by keys once more, in the backward pass."""
    config = GPTConfig.model_validate({"layers": 3, "width": 32, "heads": 4, "context": 12})
    counted = B * config.context * config.training_flops(vocab_size=V)
    once_more = B * config.context * 2 * config.layers * config.query_width * config.context
    plain = estimate_step(config, SGDConfig(), vocab_size=V, rows=B)
    assert plain.part.flops == counted + once_more
    assert plain.update.flops == 0
    again = estimate_step(config, SGDConfig(), vocab_size=V, rows=B, recompute=True)
    head = 2 * config.width * V
    forward = B * config.context * (config.forward_flops(vocab_size=V) - head)
    assert (
        counted < again.part.flops - once_more <= counted + forward
    )  # it stops where the last value is known


def test_adamw_reads_four_arrays_and_may_write_all() -> None:
    config = GPTConfig.model_validate({"layers": 1, "width": 16, "heads": 2, "context": 8})
    step = estimate_step(config, AdamWConfig(), vocab_size=V, rows=1)
    assert step.update.moved == pytest.approx(8 * step.memory.weights, rel=0.05)  # and steps are counted


def test_what_moves_by_hand() -> None:
    counter, x, y = OperationCounter(), torch.ones(10, 4), torch.ones(4, 5)
    with counter:
        z = x @ y  # a product: 2 · 10 · 4 · 5
        z.view(50)  # nothing
        F.relu(z)  # 50 numbers in, 50 out
        z.add_(1.0)  # the same
    assert (counter.work.flops, counter.work.moved, counter.work.operations) == (400, 4 * 4 * 50, 3)


@pytest.mark.parametrize("objective", [DirectPreferenceConfig(), PolicyGradientConfig()])
def test_the_model_that_a_tuning_starts_from_is_counted(objective: PartConfig) -> None:
    config = GPTConfig(layers=1, width=16, heads=2, context=8, tied=True)
    batches = PreferencesConfig() if objective.kind == "dpo" else DocumentsConfig()
    for adapters in (LowRankConfig(rank=2), NoAdaptersConfig()):
        memory = estimate_step(
            config,
            AdamWConfig(),
            vocab_size=V,
            rows=B,
            objective=objective,
            batches=batches,
            adapters=adapters,
        ).memory
        base = build_model(config, vocab_size=V, seed=0)
        assert memory.reference == sum(p.numel() * p.element_size() for p in base.parameters())
        rest = memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.allocator
        assert memory.total == rest + memory.reference
    plain = estimate_step(config, AdamWConfig(), vocab_size=V, rows=B).memory
    assert plain.reference == 0
