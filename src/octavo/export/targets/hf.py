"""A folder that Hugging Face's `transformers` opens without remote code and without a network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from octavo.config import SamplingConfig
from octavo.errors import InputError
from octavo.export.architectures import architectures
from octavo.export.solver import solve
from octavo.export.targets.base import Opened, Parcel, Support, Target, in_words
from octavo.export.tokenizer_json import KINDS, named, tokenizer_json, why_near
from octavo.export.weights import Shape
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.chat import OPENINGS, has_chat, jinja
from octavo.util.records import json_text

SHARD = 2 * 2**30
"""Bytes of one file of weights at most; a larger tensor has a file of its own."""


class HuggingFace(Target):
    """Config, weights and tokenizer of the architecture that says the run by the fewest rewrites."""

    name = "hf"
    title = "Hugging Face"
    packages: ClassVar[dict[str, str]] = {"transformers": "transformers", "tokenizers": "tokenizers"}

    def model(self, shape: Shape) -> Support:
        return in_words(solve(shape, architectures("hf").values()))

    def tokenizer(self, kind: str, made: Tokenizer | None = None) -> Support:
        if kind in KINDS:
            why = why_near(made)
            return Support("approximate" if why else "exact", "tokenizer.json", (), why)
        return Support("impossible", "tokenizer.json", (), f"it has no tokenizers of kind '{kind}'")

    def write(self, parcel: Parcel, folder: Path) -> None:
        solution = solve(parcel.weights.shape, architectures("hf").values())
        weights = solution(parcel.weights)
        tensors = solution.architecture.tensors_of(solution.shape, weights.tensors)
        dtype = getattr(torch, parcel.dtype)
        save_sharded({name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}, folder)
        tokenizer = parcel.tokenizer
        ids = {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.end, "pad_token_id": tokenizer.end}
        config = {
            **solution.architecture.settings_of(solution.shape),
            **ids,
            "dtype": parcel.dtype,
            "use_cache": True,
        }
        _json(folder / "config.json", config)
        sampling = {"max_length": solution.shape.context, **sampling_of(parcel.sampling)}
        ends = {"eos_token_id": sorted(tokenizer.ends)} if has_chat(tokenizer) else {}
        _json(folder / "generation_config.json", {**ids, **ends, **sampling})
        write_tokenizer(tokenizer, folder, context=solution.shape.context)

    def how_to_run(self, parcel: Parcel) -> str:
        prompt, how = prompt_of(parcel), HOW_CHAT if has_chat(parcel.tokenizer) else HOW
        return how.format(prompt=repr(prompt), count=answer_of(parcel, prompt))

    def reopen(self, folder: Path) -> Opened:
        return OpenedFolder(folder)


HOW = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
ids = tokenizer({prompt}, return_tensors="pt", add_special_tokens=False)
print(tokenizer.decode(model.generate(**ids, max_new_tokens={count})[0]))
```"""
HOW_CHAT = """```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
messages = [{{"role": "user", "content": {prompt}}}]
ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**ids, max_new_tokens={count})[0, ids["input_ids"].shape[1] :]
print(tokenizer.decode(answer, skip_special_tokens=True))
```

The roles' marks (`<|user|>` and so on) are tokens of their own to that library, also where somebody writes them into a
message: `split_special_tokens=True` reads them as text."""


def sampling_of(sampling: SamplingConfig) -> dict[str, Any]:
    """How the run chooses tokens, in the words of `generation_config.json`."""
    settings: dict[str, Any] = {"do_sample": sampling.temperature > 0}
    if sampling.repetition_penalty != 1:
        settings["repetition_penalty"] = sampling.repetition_penalty
    if sampling.temperature > 0:
        settings |= {"temperature": sampling.temperature, "top_k": sampling.top_k or 0}
        settings |= {"top_p": 1.0 if sampling.top_p is None else sampling.top_p}
        settings |= {} if sampling.min_p is None else {"min_p": sampling.min_p}
    return settings


def answer_of(parcel: Parcel, prompt: str) -> int:
    """How many tokens of an answer to a prompt a card asks for: what fits into the context, at most 40."""
    asked = len(parcel.tokenizer.encode(prompt)) + (len(OPENINGS) if has_chat(parcel.tokenizer) else 0)
    return max(1, min(40, parcel.weights.shape.context - asked))


def prompt_of(parcel: Parcel) -> str:
    """A short text that the vocabulary has."""
    tokenizer = parcel.tokenizer
    for text in ("The ", "the"):
        try:
            if len(tokenizer.encode(text)):
                return text
        except InputError:
            continue
    ordinary = (id for id in range(tokenizer.vocab_size) if tokenizer.decode([id]).strip())
    return tokenizer.decode([next(ordinary, 0)])


def write_tokenizer(tokenizer: Tokenizer, folder: Path, *, context: int) -> None:
    """The three files of a tokenizer. Text that reads like a special token stays text."""
    _json(folder / "tokenizer.json", tokenizer_json(tokenizer))
    special = named(tokenizer)
    _json(folder / "special_tokens_map.json", special)
    _json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": not has_chat(tokenizer),  # the template's own are text to that library
            "add_bos_token": False,
            **special,
            **({"pad_token": special["eos_token"]} if "eos_token" in special else {}),
            **({"chat_template": jinja()} if has_chat(tokenizer) else {}),
        },
    )


def _json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json_text(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def save_sharded(tensors: dict[str, Tensor], folder: Path, *, limit: int = SHARD) -> None:
    """`model.safetensors`, or several files and their index where it would be larger than `limit` bytes."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if shards[-1] and sum(map(_bytes, shards[-1].values())) + _bytes(tensor) > limit:
            shards.append({})
        shards[-1][name] = tensor
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", metadata={"format": "pt"})
        return
    files = [f"model-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)]
    for file, shard in zip(files, shards, strict=True):
        save_file(shard, folder / file, metadata={"format": "pt"})
    places = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
    total = sum(map(_bytes, tensors.values()))
    _json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class OpenedFolder(Opened):
    """The folder through `AutoModelForCausalLM` and `AutoTokenizer`."""

    def __init__(self, folder: Path) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.library: Any = transformers
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", trust_remote_code=False
        ).eval()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)

    @torch.no_grad()
    def logits(self, ids: Sequence[int]) -> np.ndarray:
        return self.model(torch.tensor([list(ids)])).logits[0].float().numpy()

    @torch.no_grad()
    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        prompt = torch.tensor([list(ids)])
        config = self.library.GenerationConfig(do_sample=False, max_new_tokens=count, pad_token_id=0)
        self.model.generation_config = config
        mask = torch.ones_like(prompt)
        return self.model.generate(prompt, attention_mask=mask)[0, len(ids) :].tolist()

    def encode(self, text: str) -> list[int] | None:
        try:
            return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        except Exception:  # the library raises nothing more special for a character that it lacks
            return None

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def versions(self) -> dict[str, str]:
        import tokenizers

        return {
            "transformers": self.library.__version__,
            "tokenizers": tokenizers.__version__,
            "torch": torch.__version__,
        }
