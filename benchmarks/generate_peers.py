"""One program generating at one shape, in a process and perhaps an interpreter of its own; prints a line of JSON.

`generate_speed.py` starts it. All weights are random and nothing ends a text early, so the same number of tokens is
written by all. Greedy, but for nanoGPT, whose `generate` always draws.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import settle

Generate = Callable[[int], None]  # writes so many tokens after the prompt, in every stream


def octavo(spec: dict[str, Any]) -> tuple[Generate, str]:
    """Through the engine: with its sampling, its log-probabilities and its text."""
    import torch

    from octavo.generation import Engine
    from octavo.model.base import build_model
    from octavo.model.config import GPTConfig
    from octavo.run.run import Run
    from octavo.tokenizers.char import CharTokenizer

    torch.set_num_threads(spec["threads"])

    if "run" in spec:
        run = Run.open(spec["run"])
        return written_by(Engine(run.model, run.tokenizer, precision=spec["precision"]), spec)
    names = ("layers", "heads", "width", "context")
    rest = {"positions": "learned", "norm": "layer", "feed_forward": spec["activation"], "tied": spec["tied"]}
    config = GPTConfig.model_validate({name: spec[name] for name in names} | rest)
    model = build_model(config, vocab_size=spec["vocabulary"], seed=1).eval().to(spec["device"])
    letters = CharTokenizer(
        "".join(map(chr, range(1, spec["vocabulary"] + 1))), documents=False, unknown=False
    )
    engine = Engine(model, letters, precision=spec.get("precision", "float32"))
    return written_by(engine, spec)


def written_by(engine: Any, spec: dict[str, Any]) -> tuple[Generate, str]:
    """What an engine of Octavo writes."""
    import torch

    from octavo import __version__
    from octavo.generation import Sampling

    prompt = spec.get("text") or "".join(chr(1 + i % 60) for i in range(spec["prompt"]))

    def generate(tokens: int) -> None:
        done = engine.samples(
            prompt, tokens=tokens, sampling=Sampling(temperature=0), count=spec["streams"], seed=1
        )
        assert all(len(sample.ids) == tokens for sample in done)

    return generate, f"octavo {__version__}, torch {torch.__version__}"


def prompts(spec: dict[str, Any]) -> Any:
    """The prompt's tokens (streams, T)."""
    import torch

    return torch.arange(spec["prompt"], device=spec["device"]).remainder(60).repeat(spec["streams"], 1)


def nanogpt(spec: dict[str, Any]) -> tuple[Generate, str]:
    """Its own `generate`, from the checkout that is named."""
    import torch

    sys.path.insert(0, spec["nanogpt"])
    from model import GPT, GPTConfig  # nanoGPT's

    torch.set_num_threads(spec["threads"])
    shape = {"n_layer": "layers", "n_head": "heads", "n_embd": "width", "block_size": "context"}
    config = {name: spec[ours] for name, ours in shape.items()} | {"vocab_size": spec["vocabulary"]}
    model = GPT(GPTConfig(**config, dropout=0.0)).eval().to(spec["device"])

    def generate(tokens: int) -> None:
        with torch.autocast(spec["device"], torch.bfloat16, enabled=spec["device"] != "cpu"):
            model.generate(prompts(spec), tokens)

    return generate, f"nanoGPT, torch {torch.__version__}"


def huggingface(spec: dict[str, Any]) -> tuple[Generate, str]:
    """The GPT-2 of transformers with its `generate`, by its default cache or the static one."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(spec["threads"])
    config = GPT2Config(
        vocab_size=spec["vocabulary"],
        n_positions=spec["context"],
        n_embd=spec["width"],
        n_layer=spec["layers"],
        n_head=spec["heads"],
        activation_function={"relu": "relu", "gelu_tanh": "gelu_new"}[spec["activation"]],
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = GPT2LMHeadModel(config).eval()
    if spec["device"] != "cpu":
        model = model.to(spec["device"], torch.bfloat16)
    ids = prompts(spec)
    own = {"cache_implementation": "static"} if spec.get("static") else {}

    def generate(tokens: int) -> None:
        done: Any = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            **own,
        )
        assert done.size(1) == ids.size(1) + tokens

    return generate, f"transformers {version('transformers')}, torch {torch.__version__}"


def llamacpp(spec: dict[str, Any]) -> tuple[Generate, str]:
    """Its low-level loop: a batch in, the largest logit of each stream out. Weights and cache in float32."""
    if spec["device"] != "cpu":
        raise ImportError("llama-cpp-python is built for processors here")
    import llama_cpp as api
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = Path(spec.get("file") or Path(folder) / "random.gguf")
        if "file" not in spec:
            write_gguf(path, spec)
        api.llama_log_set(_quiet, ctypes.c_void_p(0))
        api.llama_backend_init()
        how = api.llama_model_default_params()
        how.use_extra_bufts = not spec.get("as_in_the_file", False)
        model = api.llama_model_load_from_file(str(path).encode(), how)
    streams, prompt, vocabulary = spec["streams"], spec["prompt"], spec["vocabulary"]
    options = api.llama_context_default_params()
    options.n_ctx = spec["context"] * streams
    options.n_batch = options.n_ubatch = max(512, prompt * streams)
    options.n_seq_max = streams
    options.n_threads = options.n_threads_batch = spec["threads"]
    options.type_k = options.type_v = 0  # float32
    options.kv_unified = bool(spec.get("unified"))
    context = api.llama_init_from_model(model, options)
    batch = api.llama_batch_init(options.n_batch, 0, 1)

    def decode(tokens: Any, position: int) -> Any:
        """Tokens (streams, T) from `position` on; the largest logit's token of each stream."""
        at, last = 0, []
        for stream, row in enumerate(tokens):
            for offset, token in enumerate(row):
                batch.token[at], batch.pos[at] = int(token), position + offset
                batch.n_seq_id[at], batch.seq_id[at][0] = 1, stream
                batch.logits[at] = offset == len(row) - 1
                at += 1
            last.append(at - 1)
        batch.n_tokens = at
        assert api.llama_decode(context, batch) == 0
        logits = [
            np.ctypeslib.as_array(api.llama_get_logits_ith(context, i), shape=(vocabulary,)) for i in last
        ]
        return np.stack(logits).argmax(axis=1)[:, None]

    def generate(tokens: int) -> None:
        api.llama_memory_clear(api.llama_get_memory(context), True)
        new = decode([[i % 60 for i in range(prompt)]] * streams, 0)
        for position in range(prompt, prompt + tokens - 1):
            new = decode(new, position)

    return (
        generate,
        f"llama-cpp-python {version('llama_cpp_python')}, {api.llama_print_system_info().decode()}",
    )


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _quiet(level: int, text: bytes, data: Any) -> None:
    if level >= 4:  # an error
        sys.stderr.write(text.decode())


def write_gguf(path: Path, spec: dict[str, Any]) -> None:
    """A GPT-2 of this shape with random float32 weights, as llama.cpp reads it (GGUF version 3)."""
    import numpy as np

    C, F, V = spec["width"], 4 * spec["width"], spec["vocabulary"]
    shapes = {"token_embd": (V, C), "position_embd": (spec["context"], C), "output": (V, C)}
    shapes |= {"output_norm": (C,)}
    for i in range(spec["layers"]):
        own = {"attn_norm": (C,), "attn_qkv": (3 * C, C), "attn_output": (C, C)}
        own |= {"ffn_norm": (C,), "ffn_up": (F, C), "ffn_down": (C, F)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in own.items()}
    biased = [name for name in shapes if not name.endswith("embd") and name != "output"]
    tensors = {f"{name}.weight": shape for name, shape in shapes.items()}
    tensors |= {f"{name}.bias": shapes[name][:1] for name in biased}
    numbers = {"context_length": spec["context"], "embedding_length": C, "block_count": spec["layers"]}
    numbers |= {"feed_forward_length": F, "attention.head_count": spec["heads"], "vocab_size": V}
    facts: dict[str, tuple[int, bytes]] = {
        f"gpt2.{name}": (4, struct.pack("<I", value)) for name, value in numbers.items()
    }
    facts["gpt2.attention.layer_norm_epsilon"] = (6, struct.pack("<f", 1e-5))
    facts["general.architecture"] = (8, _string("gpt2"))
    facts["tokenizer.ggml.model"] = (8, _string("none"))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for name, (kind, value) in facts.items():
        head += _string(name) + struct.pack("<I", kind) + value
    at = 0
    for name, shape in tensors.items():
        sizes = tuple(reversed(shape))
        head += _string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, at)
        at += -(-4 * int(np.prod(shape)) // 32) * 32
    random = np.random.default_rng(1)
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for name, shape in tensors.items():
            values = np.ones(shape) if "norm.weight" in name else random.normal(0, 0.02, shape)
            data = values.astype("<f4").tobytes()
            file.write(data + bytes(-len(data) % 32))


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def seconds(generate: Generate, tokens: int, device: str) -> float:
    """Of one call."""
    begin = time.perf_counter()
    generate(tokens)
    settle(device)
    return time.perf_counter() - begin


def memory_mib(device: str) -> float:
    """Most that the process, or on an accelerator torch, has held."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Load, generate cold (what a process of its own waits for) and warm (the median of some more), and print."""
    spec = json.loads(sys.argv[1])
    who = {"octavo": octavo, "nanogpt": nanogpt, "huggingface": huggingface, "llamacpp": llamacpp}[
        spec["who"]
    ]
    try:
        import torch  # noqa: F401 - before the others' threads exist

        generate, told = who(spec)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    tokens, many, device = spec["tokens"], spec["streams"], spec["device"]
    generate(1)
    settle(device)
    first_cold = time.time() - spec["started"]
    cold = seconds(generate, tokens, device)
    first = sorted(seconds(generate, 1, device) for _ in range(3))[1]
    began = time.process_time()
    warm = [seconds(generate, tokens, device) for _ in range(3)]
    busy = (time.process_time() - began) / len(warm)
    found = {
        "told": told,
        "process_to_first_token_s": first_cold,
        "first_token_s": first,
        "cold_tokens_s": many * tokens / cold,
        "warm_tokens_s": many * tokens / sorted(warm)[1],
        "busy_tokens_s": many * tokens / busy,
        "memory_mib": memory_mib(device),
    }
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # libraries that fail while they are torn down have said what they had to say


if __name__ == "__main__":
    main()
