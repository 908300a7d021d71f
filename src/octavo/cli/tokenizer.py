"""octavo tokenizer: tokenizers side by side, and the tokens of a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from octavo.cli.common import Json, Whole, print_json, print_table, show, the_run
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.tokenizers.comparison import Row

tokenizer_command = App(
    name="tokenizer",
    help="Compare tokenizers on a text, or look at the tokens of one.",
    help_format="plaintext",
)


@tokenizer_command.command(name="compare")
def compare_command(
    *tokenizers: Annotated[
        str, Parameter(help="char, word, byte, gpt2, bpe:512 (the size), or kind:option=value,option=value.")
    ],
    text: Annotated[
        list[str],
        Parameter(
            help="A file or folder of text; several times for several.", consume_multiple=False, negative=""
        ),
    ],
    width: Annotated[
        Whole,
        Parameter(
            help="Width of the model whose embeddings are counted.", validator=validators.Number(gte=1)
        ),
    ] = 128,
    json: Json = False,
) -> int:
    """Learn each tokenizer from the first 90 % of a text and measure it on the rest.

    For example:

    octavo tokenizer compare --text shakespeare.txt char word bpe:512 bpe:4096 gpt2

    octavo tokenizer compare --text book.txt word:5000 word:lowercase=true,lines=keep --json
    """
    from octavo.run.training_text import text_pieces
    from octavo.tokenizers.comparison import DEFAULT, compare, tokenizers_of
    from octavo.util.terminal import Console

    console = Console()
    tokenizers_of(tokenizers)  # a slip in a name is said before a long text is read
    whole = "".join(text_pieces(text, console))
    rows = compare(whole, tokenizers or DEFAULT, width=width, report=console.say)
    if json:
        print_json({"width": width, "rows": rows})
        return 0
    print_rows(rows, width)
    return 0


def print_rows(rows: list[Row], width: int) -> None:
    """The table, and below it the tokenizers that could not be measured."""
    head = (
        "",
        "vocabulary",
        "tokens/byte",
        "bytes/token",
        "tokens/word",
        "unknown",
        "encode",
        "decode",
        "embedding",
    )
    lines = [
        (
            row.name,
            f"{row.vocabulary:,}",
            f"{row.tokens_per_byte:.3f}",
            f"{row.bytes_per_token:.2f}",
            f"{row.fertility:.2f}",
            f"{row.unknown:.2%}",
            f"{row.encode_speed:,.1f}",
            f"{row.decode_speed:,.1f}",
            f"{row.embedding:,}",
            ", ".join(row.loses) or "nothing",
        )
        for row in rows
        if row.problem is None
    ]
    if lines:
        print_table(lines, head=(*head, "loses"))
        show(f"\nencode and decode in MB/s; embedding: numbers in a table of width {width}")
    for row in rows:
        if row.problem is not None:
            show(f"{row.name}: {row.problem}")


@tokenizer_command.command(name="show")
def show_command(
    text: Annotated[str, Parameter(help="What to cut into tokens.")],
    *tokenizers: Annotated[
        str, Parameter(help="char, word, byte, gpt2:FOLDER, …; one that learns, learns from the text itself.")
    ],
    run: Annotated[Path | None, Parameter(help="Use this run's tokenizer.")] = None,
    json: Json = False,
) -> int:
    """Cut a short text into tokens, and show each with its id.

    For example:

    octavo tokenizer show "Thank you!" char gpt2

    octavo tokenizer show "Thank you!" --run runs/bard
    """
    from octavo.tokenizers.base import printable
    from octavo.tokenizers.comparison import tokenizers_of

    if not tokenizers and run is None:
        raise InputError("Which tokenizer?", remedy="name some, such as char gpt2, or a run: --run RUN")
    loaded = {
        name: config.build(lambda: iter([text]), documents=False)
        for name, config in tokenizers_of(tokenizers).items()
    }
    if run is not None:
        from octavo.run.run import Run

        loaded[str(run)] = Run.open(the_run(run)).tokenizer
    ids = {name: tokenizer.encode(text).tolist() for name, tokenizer in loaded.items()}
    pieces = {name: [tokenizer.decode([id]) for id in ids[name]] for name, tokenizer in loaded.items()}
    if json:
        print_json([{"name": name, "ids": ids[name], "tokens": pieces[name]} for name in loaded])
        return 0
    for name in loaded:
        show(f"{name}: {len(ids[name])} token{'s' * (len(ids[name]) != 1)}")
        cut = (f"{printable(piece)} {id}" for piece, id in zip(pieces[name], ids[name], strict=True))
        show(f"  {' · '.join(cut)}")
    return 0
