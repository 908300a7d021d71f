"""octavo tokenizer: tokenizers side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators

from octavo.cli.common import Json, print_json, print_table, show

if TYPE_CHECKING:
    from octavo.tokenizers.comparison import Row

tokenizer_command = App(name="tokenizer", help="Compare tokenizers on a text.", help_format="plaintext")


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
        int,
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
    from octavo.ground.console import Console
    from octavo.runs.trained_on import text_pieces
    from octavo.tokenizers.comparison import DEFAULT, compare, tokenizers_of

    console = Console()
    tokenizers_of(tokenizers)  # a slip in a name is said before a long text is read
    whole = "".join(text_pieces(text, console))
    rows = compare(whole, tokenizers or DEFAULT, width=width, report=console.say)
    if json:
        print_json({"width": width, "rows": [row.as_dict() for row in rows]})
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
