"""Folders as transformers writes them, tiny and with random weights."""

from __future__ import annotations

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.export.tokenizer_gguf import CUTS

transformers = pytest.importorskip("transformers")
library = pytest.importorskip("tokenizers")

T = 24
TEXT = "the brown fox jumps over the lazy dog. a dog runs from the old cat!\n" * 4


def encoder(cut: str = "gpt-2") -> Any:
    """A byte-level tokenizer with one special token, which cuts words as one of llama.cpp's kinds does."""
    told = CUTS[cut]
    found = library.Tokenizer(library.models.BPE(ignore_merges=told.whole_words))
    frame = json.loads(found.to_str()) | {"pre_tokenizer": told.pre_tokenizer, "normalizer": told.normalizer}
    found = library.Tokenizer.from_str(json.dumps(frame))
    found.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator([TEXT], trainer)
    return found


V = encoder().get_vocab_size()
SHARED = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": T,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GPT2 = {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": T}
ENDS = {"bos_token_id": 0, "eos_token_id": 0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", GPT2 | ENDS),
    "gpt2, exact gelu": ("GPT2", GPT2 | ENDS | {"activation_function": "gelu", "n_inner": 40}),
    "llama": ("Llama", SHARED),
    "llama, tied": ("Llama", SHARED | {"tie_word_embeddings": True, "head_dim": 12}),
    "llama, biases": ("Llama", SHARED | {"attention_bias": True, "mlp_bias": True}),
    "qwen3": ("Qwen3", SHARED | {"head_dim": 12, "rms_norm_eps": 1e-3}),
    "apertus": ("Apertus", SHARED | {"hidden_act": "relu2"}),
    "gpt-neox": (
        "GPTNeoX",
        {name: value for name, value in SHARED.items() if name != "num_key_value_heads"}
        | {"use_parallel_residual": False},
    ),
}


@torch.no_grad()
def theirs(kind: str) -> Any:
    """A model of transformers, none of whose numbers is zero or one."""
    name, options = MODELS[kind]
    torch.manual_seed(0)
    heads = {"GPT2": "LMHeadModel"}
    config = getattr(transformers, f"{name}Config")(**options)
    model = getattr(transformers, f"{name}{heads.get(name, 'ForCausalLM')}")(config)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model.eval()


def saved(kind: str, folder: Path, *, dtype: torch.dtype = torch.float32, **options: Any) -> Path:
    """The folder of such a model, with its tokenizer."""
    theirs(kind).to(dtype).save_pretrained(folder, **options)
    encoder().save(str(folder / "tokenizer.json"))
    return folder


def opened(folder: Path) -> Any:
    """What transformers makes of a folder, in float32."""
    found = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return found.eval()


def tokens(seed: int = 0) -> torch.Tensor:
    """Ids (3, T)."""
    return torch.randint(V, (3, T), generator=torch.Generator().manual_seed(seed))
