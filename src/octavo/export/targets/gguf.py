"""One GGUF file that llama.cpp opens, with its tokenizer inside, and a Modelfile for Ollama beside it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from octavo.export.architectures import architectures
from octavo.export.solver import solve
from octavo.export.targets.base import Opened, Parcel, Support, Target, in_words
from octavo.export.targets.hf import answer_of, prompt_of
from octavo.export.tokenizer_gguf import Vocabulary, supported, vocabulary
from octavo.export.weights import Shape
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import CHAT_END
from octavo.tokenizers.chat import OPENINGS, has_chat, jinja

FILE, MODELFILE = "model.gguf", "Modelfile"


class GGUF(Target):
    """The architecture of llama.cpp that says the run by the fewest rewrites."""

    name = "gguf"
    title = "llama.cpp"
    rank = 1
    packages: ClassVar[dict[str, str]] = {"gguf": "gguf", "llama_cpp": "llama-cpp-python"}
    types: ClassVar[tuple[str, ...]] = ("float32", "float16", "bfloat16", "q8_0", "q4_1", "q4_0")

    def model(self, shape: Shape) -> Support:
        return in_words(solve(shape, architectures("gguf").values()))

    def tokenizer(self, kind: str, made: Tokenizer | None = None) -> Support:
        return supported(kind, made)

    def write(self, parcel: Parcel, folder: Path) -> None:
        import gguf

        solution = solve(parcel.weights.shape, architectures("gguf").values())
        weights = solution(parcel.weights)
        settings = solution.architecture.settings_of(solution.shape)
        writer: Any = gguf.GGUFWriter(str(folder / FILE), settings.pop("general.architecture"))
        writer.add_name(parcel.name)
        for key, value in settings.items():
            _ADD[type(value)](writer, key, value)
        _write_tokenizer(writer, parcel.tokenizer)
        for name, tensor in solution.architecture.tensors_of(solution.shape, weights.tensors).items():
            kind, numbers = _in_type(tensor, parcel.dtype)
            writer.add_tensor(name, numbers, raw_dtype=kind)
        writer.add_file_type(getattr(gguf.LlamaFileType, _FILE_TYPES[parcel.dtype]))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        (folder / MODELFILE).write_text(modelfile(parcel), encoding="utf-8")

    def reopen(self, folder: Path) -> Opened:
        return OpenedFile(folder / FILE)

    def how_to_run(self, parcel: Parcel) -> str:
        prompt, context = prompt_of(parcel), parcel.weights.shape.context
        if self.tokenizer(parcel.tokenizer.kind, parcel.tokenizer).how == "no_vocab":
            return IDS.format(context=context)
        how, count = HOW_CHAT if has_chat(parcel.tokenizer) else HOW, answer_of(parcel, prompt)
        return how.format(prompt=repr(prompt), context=context, count=count)


HOW = """```python
from llama_cpp import Llama

model = Llama("model.gguf", n_ctx={context}, verbose=False)
print(model({prompt}, max_tokens={count})["choices"][0]["text"])
```

With Ollama: `ollama create mine -f Modelfile`, then `ollama run mine`."""
HOW_CHAT = """```python
from llama_cpp import Llama

model = Llama("model.gguf", n_ctx={context}, verbose=False)
messages = [{{"role": "user", "content": {prompt}}}]
print(model.create_chat_completion(messages, max_tokens={count})["choices"][0]["message"]["content"])
```

With Ollama: `ollama create mine -f Modelfile`, then `ollama run mine`."""
IDS = """The file has no tokenizer: llama.cpp takes and gives ids.

```python
from llama_cpp import Llama

model = Llama("model.gguf", n_ctx={context}, verbose=False)
for _, id in zip(range(40), model.generate([0], temp=1.0)):
    print(id)
```"""

_ADD: dict[type, Any] = {
    bool: lambda writer, key, value: writer.add_bool(key, value),
    int: lambda writer, key, value: writer.add_uint32(key, value),
    float: lambda writer, key, value: writer.add_float32(key, value),
    str: lambda writer, key, value: writer.add_string(key, value),
    list: lambda writer, key, value: writer.add_array(key, value),
}
_FILE_TYPES = {
    "float32": "ALL_F32",
    "float16": "MOSTLY_F16",
    "bfloat16": "MOSTLY_BF16",
    "q8_0": "MOSTLY_Q8_0",
    "q4_1": "MOSTLY_Q4_1",
    "q4_0": "MOSTLY_Q4_0",
}
_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"} | {
    each: each.upper() for each in ("q8_0", "q4_1", "q4_0")
}
LONGEST = 4096  # bytes of a token, as room for it
BLOCK = 32  # numbers of a row that are rounded together


def _in_type(tensor: Tensor, dtype: str) -> tuple[Any, np.ndarray]:
    """A tensor as llama.cpp takes it: vectors stay whole, matrices whose rows are no multiple of a block too."""
    import gguf

    numbers = tensor.float().numpy()
    whole = numbers.ndim < 2 or (dtype.startswith("q") and numbers.shape[1] % BLOCK)
    kind = getattr(gguf.GGMLQuantizationType, "F32" if whole else _TYPES[dtype])
    return kind, gguf.quantize(numbers, kind)


def _write_tokenizer(writer: Any, tokenizer: Tokenizer) -> None:
    words = vocabulary(tokenizer)
    writer.add_tokenizer_model(words.model)
    if words.model == "no_vocab":
        return
    writer.add_tokenizer_pre(words.pre if words.model == "gpt2" else "default")
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.types)
    if words.merges:
        writer.add_token_merges(words.merges)
    if tokenizer.start is not None:
        writer.add_bos_token_id(tokenizer.start)
    if tokenizer.end is not None:
        writer.add_eos_token_id(tokenizer.end)
    if words.unknown is not None:
        writer.add_unk_token_id(words.unknown)
    if has_chat(tokenizer):
        writer.add_chat_template(jinja(mark_of(words, tokenizer)))
        writer.add_eot_token_id(tokenizer.special[CHAT_END])
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def modelfile(parcel: Parcel) -> str:
    """Ollama's settings of a model that goes on from a text, or answers. What the run does not use is switched off, for
    Ollama has defaults of its own."""
    context, how, tokenizer = parcel.weights.shape.context, parcel.sampling, parcel.tokenizer
    chats = has_chat(tokenizer)
    template = ollama_chat(mark_of(vocabulary(tokenizer), tokenizer)) if chats else "{{ .Prompt }}"
    numbers = {
        "num_ctx": context,
        "temperature": how.temperature,
        "top_k": how.top_k or 0,
        "top_p": 1.0 if how.top_p is None else how.top_p,
        "min_p": how.min_p or 0.0,
        "repeat_penalty": how.repetition_penalty,
    }
    if not tokenizer.ends:  # nothing else would stop it
        numbers["num_predict"] = context
    stops = [tokenizer.token_text(end) for end in sorted(tokenizer.ends)]
    return "\n".join(
        [
            f"FROM ./{FILE}",
            f'TEMPLATE "{template}"',
            *(f"PARAMETER {name} {_figure(number)}" for name, number in numbers.items()),
            *(f"PARAMETER stop {quoted(text)}" for text in stops),
            "",
        ]
    )


def mark_of(written: Vocabulary, tokenizer: Tokenizer) -> str:
    """What a file has before the names of special tokens: llama.cpp finds those of a template by these names."""
    return written.tokens[tokenizer.special[CHAT_END]].removesuffix(CHAT_END) if written.tokens else ""


def ollama_chat(mark: str) -> str:
    """The template of conversations in Ollama's words; for `mark` see `mark_of`."""
    system, user, assistant, end = (
        mark + name for name in (OPENINGS["system"], OPENINGS["user"], OPENINGS["assistant"], CHAT_END)
    )
    return (
        f"{{{{ if .System }}}}{system}{{{{ .System }}}}{end}{{{{ end }}}}"
        f"{{{{ if .Prompt }}}}{user}{{{{ .Prompt }}}}{end}{{{{ end }}}}{assistant}{{{{ .Response }}}}{end}"
    )


def _figure(number: float) -> str:
    return f"{number}" if isinstance(number, int) else f"{number:g}"


def quoted(text: str) -> str:
    """As a Modelfile has it."""
    mark = '"' * (3 if '"' in text else 1)
    return f"{mark}{text}{mark}"


def _as_in_the_file(options: Any) -> Any:
    """Weights stay as the file has them: repacked for a processor's matrix unit (AMX), some systems end the process."""
    options.use_extra_bufts = False
    return options


class OpenedFile(Opened):
    """The file through llama.cpp, which computes in float32 and keeps keys and values in it."""

    def __init__(self, path: Path) -> None:
        import gguf
        import llama_cpp

        self.library: Any = llama_cpp
        threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
        reader: Any = gguf.GGUFReader(str(path))
        arch = bytes(reader.fields["general.architecture"].parts[-1]).decode()
        context = int(reader.fields[f"{arch}.context_length"].parts[-1][0])
        self.has_words = bytes(reader.fields["tokenizer.ggml.model"].parts[-1]) != b"no_vocab"
        usual = llama_cpp.llama_model_default_params
        self.library.llama_cpp.llama_model_default_params = lambda: _as_in_the_file(usual())
        with (
            Path(os.devnull).open("w", encoding="utf-8") as silent,
            redirect_stderr(silent),
            redirect_stdout(silent),
        ):
            self.model: Any = llama_cpp.Llama(
                str(path),
                n_ctx=context,
                n_batch=context,
                n_ubatch=context,
                logits_all=True,
                type_k=llama_cpp.GGML_TYPE_F32,
                type_v=llama_cpp.GGML_TYPE_F32,
                n_threads=threads,
                n_threads_batch=threads,
                verbose=False,
            )

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        self.model.reset()
        self.model.eval(list(ids))
        return np.array(self.model.scores[: len(ids)], np.float32)

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        self.model.reset()
        going = self.model.generate(list(ids), temp=0.0, repeat_penalty=1.0)
        return [int(next(going)) for _ in range(count)]

    def encode(self, text: str) -> list[int] | None:
        if not self.has_words:
            return None
        if not text:
            return []
        tokens = self.model.tokenize(text.encode("utf-8", "surrogatepass"), add_bos=False, special=False)
        return None if min(tokens, default=0) < 0 else list(tokens)

    def decode(self, ids: Sequence[int]) -> str | None:
        if not self.has_words:
            return None
        # Piece by piece, as llama.cpp itself writes; the binding's own way leaves out those of more than 32 bytes.
        vocabulary, piece = (
            self.library.llama_model_get_vocab(self.model.model),
            ctypes.create_string_buffer(LONGEST),
        )
        pieces = b""
        for id in ids:
            length = self.library.llama_token_to_piece(vocabulary, id, piece, LONGEST, 0, False)
            pieces += piece.raw[: max(0, length)]
        return pieces.decode("utf-8", "replace")

    def versions(self) -> dict[str, str]:
        return {"llama-cpp-python": self.library.__version__}
