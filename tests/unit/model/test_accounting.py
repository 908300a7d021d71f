"""Costs computed from the config, against the built thing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from octavo.config import ModelConfig
from octavo.config.parts import parts
from octavo.model import accounting
from octavo.model.build import build_model
from octavo.training.checkpoint import optimizer_tensors

V, B = 19, 3
SHAPES: dict[str, dict[str, object]] = {
    "default": {},
    "report E": {"heads": 5, "head_bias": True, "feed_forward": {"kind": "relu", "width": 40}},
    "Llama": {"kv_heads": 2, "positions": "rotary", "norm": "rms", "feed_forward": "swiglu"},
    "attention alone": {"feed_forward": "none", "norm": "none", "output_projection": False},
    "tied": {"tied": True, "qkv_bias": True, "final_norm": False, "embedding_norm": True},
    "post-norm": {"norm_place": "post", "qk_norm": True, "logit_softcap": 10.0, "residual": False},
    "dropout": {"dropout": {"attention": 0.1, "projection": 0.2, "feed_forward": 0.3, "embedding": 0.4}},
}


@pytest.fixture(params=SHAPES)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    torch.set_num_threads(1)
    return ModelConfig.model_validate(
        {"layers": 3, "width": 32, "heads": 4, "context": 12} | SHAPES[request.param]
    )


def tokens(config: ModelConfig) -> Tensor:
    return torch.randint(V, (B, config.context), generator=torch.Generator().manual_seed(0))


def test_flops_are_those_that_torch_counts(config: ModelConfig) -> None:
    """With explicit attention, whose matrix products torch counts one by one; the mask is not halved."""
    model = build_model(config, vocab_size=V, seed=0, explicit_attention=True)
    with FlopCounterMode(display=False) as forward:
        logits = model(tokens(config))
    count = B * config.context
    assert forward.get_total_flops() == count * accounting.forward_flops(config, vocab_size=V)
    with FlopCounterMode(display=False) as backward:
        F.cross_entropy(logits.flatten(0, 1), tokens(config).flatten()).backward()
    together = forward.get_total_flops() + backward.get_total_flops()
    assert together == count * accounting.training_flops(config, vocab_size=V)


@torch.no_grad()
def test_flops_of_a_shorter_sequence(config: ModelConfig) -> None:
    model = build_model(config, vocab_size=V, seed=0, explicit_attention=True)
    with FlopCounterMode(display=False) as counter:
        model(tokens(config)[:, :5])
    assert counter.get_total_flops() == B * 5 * accounting.forward_flops(config, vocab_size=V, length=5)


def test_matrix_parameters_are_those_of_the_matrices(config: ModelConfig) -> None:
    model = build_model(config, vocab_size=V, seed=0)
    blocks = sum(p.numel() for p in model.blocks.parameters() if p.ndim == 2)
    assert accounting.block_matrix_parameters(config) == blocks
    assert accounting.matrix_parameters(config, vocab_size=V) == blocks + model.head.weight.numel()


@pytest.mark.parametrize("batch", [1, 4])
def test_cache_bytes_are_those_of_the_tensors(config: ModelConfig, batch: int) -> None:
    cache = build_model(config, vocab_size=V, seed=0).new_cache(batch)
    held = sum(
        tensor.untyped_storage().nbytes() for layer in cache.layers for tensor in (layer.keys, layer.values)
    )
    assert accounting.cache_bytes(config, batch=batch) == held


def saved_bytes(config: ModelConfig) -> int:
    """What a forward pass on the CPU keeps for its backward pass, weights and buffers aside."""
    model = build_model(config, vocab_size=V, seed=0).train()
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, int] = {}
    alive = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    inputs = tokens(config)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        F.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten())
    return sum(kept.values())


def test_activation_bytes_are_those_that_the_cpu_keeps(config: ModelConfig) -> None:
    """Fused attention keeps no weights: they were once counted, which is most of a long context's memory."""
    assert accounting.activation_bytes(config, vocab_size=V, batch=B) == saved_bytes(config)


def test_activation_bytes_take_no_memory() -> None:
    """Of a model that no laptop could hold."""
    config = ModelConfig.model_validate({"layers": 96, "width": 12288, "heads": 96, "context": 2048})
    assert accounting.activation_bytes(config, vocab_size=50_257, batch=32) > 1e12


@pytest.mark.parametrize("kind", parts("optimizer"))
def test_training_memory_is_that_of_the_tensors(config: ModelConfig, kind: str) -> None:
    part = parts("optimizer")[kind]()
    model = build_model(config, vocab_size=V, seed=0)
    optimizers = part.build(model)
    F.cross_entropy(model(tokens(config)).flatten(0, 1), tokens(config).flatten()).backward()
    for optimizer in optimizers:
        optimizer.step()
    memory = accounting.training_memory(config, part, vocab_size=V, batch=B)
    assert memory.weights == sum(p.numel() * p.element_size() for p in model.parameters())
    assert memory.gradients == sum(p.grad.numel() * p.grad.element_size() for p in model.parameters())
    states = optimizer_tensors(optimizers)
    assert memory.optimizer == sum(
        t.numel() * t.element_size() for name, t in states.items() if not name.endswith(".step")
    )
    assert memory.activations == accounting.activation_bytes(config, vocab_size=V, batch=B)
    assert memory.total == memory.weights + memory.gradients + memory.optimizer + memory.activations
