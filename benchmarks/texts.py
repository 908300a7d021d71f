"""Texts of many kinds on which nothing was fitted, made from their public addresses: ten, or thirty with `--more`.

    python benchmarks/texts.py FOLDER [--more]
    python benchmarks/texts.py FOLDER [--more] --from CLONES

Each is fetched at one commit, read as UTF-8 with Unix line breaks, without Project Gutenberg's header and licence, its
parts joined in the order of their paths, and checked by its SHA-256; what is in FOLDER already and right is kept.
With `--from` nothing is fetched: CLONES has a clone of every repository, named OWNER+NAME.

No power of two lies between the first eighteen twentieths of one of the ten and these with the last: there `zpaq`
would take a larger model.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from common import finish, print_table
from octavo.corpus.fetch.catalogue import Entry, user_mirrors
from octavo.corpus.fetch.downloads import fetch_entry
from octavo.corpus.formats import decoded
from octavo.corpus.readers.text import without_gutenberg
from octavo.util.files import file_hash, written_aside

PUBLIC = "public domain in the USA"


class Text(NamedTuple):
    """What a text is made of: `paths` of a commit of a repository on GitHub, of these the first `lines` where that is
    said; `bytes` and `sha256` are of the text that is made."""

    name: str
    kind: str
    licence: str
    repository: str
    commit: str
    paths: tuple[str, ...]
    bytes: int
    sha256: str
    encoding: str = "utf-8"
    lines: int | None = None


TEXTS = (
    Text(
        name="kidnapped",
        kind="a novel (Stevenson)",
        licence=PUBLIC,
        repository="GITenberg/Kidnapped_421",
        commit="9c8d81a8c5a780094821215c578e9ec0f33461fa",
        paths=("421-0.txt",),
        bytes=431237,
        sha256="5f1ecfd8cbca671fbd887ffbb65dddf166cfa176c3b6bbc51aa789cc5b9e8d3b",
    ),
    Text(
        name="you-never-can-tell",
        kind="a play (Shaw)",
        licence=PUBLIC,
        repository="GITenberg/You-Never-Can-Tell_2175",
        commit="46ec78346a62eb8098f4922a937a68db787e28ea",
        paths=("2175.txt",),
        bytes=201353,
        sha256="665743effde4396dc8ea01cad66810b1c704eeb1eb1e5dc002c0fcc8f9657558",
    ),
    Text(
        name="arsene-lupin",
        kind="French prose (Leblanc)",
        licence=PUBLIC,
        repository="GITenberg/Ars-ne-Lupin-gentleman-cambrioleur_32854",
        commit="b8d1e4b5b9fd5d8e2d96d28fc0938201bf4ff3fd",
        paths=("32854-8.txt",),
        bytes=344246,
        sha256="1adf016639d978b11b5abfb2b32c364c83745bb497ce7aed9fd21d532754c417",
        encoding="windows-1252",
    ),
    Text(
        name="effi-briest",
        kind="German prose (Fontane)",
        licence=PUBLIC,
        repository="GITenberg/Effi-Briest_5323",
        commit="ad711db620a52853f8191bfd1a66e45fda0e51be",
        paths=("5323-8.txt",),
        bytes=602430,
        sha256="016bbddaa2edaf0f816a11a1d564ccbae04e624eddceffe052c053c9a8a05f63",
        encoding="windows-1252",
    ),
    Text(
        name="marianela",
        kind="Spanish prose (Pérez Galdós)",
        licence=PUBLIC,
        repository="GITenberg/Marianela_17340",
        commit="4e67b60bc38da27e1fcdfbc995ca2dd9863e5d05",
        paths=("17340-8.txt",),
        bytes=301602,
        sha256="061040d16374dfee829773bbfad3eeaeac5faafd1aef2b96d9919988f6b19f30",
        encoding="windows-1252",
    ),
    Text(
        name="baskervillen-koira",
        kind="Finnish prose (Doyle, translated)",
        licence=PUBLIC,
        repository="GITenberg/Baskervillen-koira_32536",
        commit="0a19718801d8dfb188aefa2a39bb1b2500cb8832",
        paths=("32536-8.txt",),
        bytes=469243,
        sha256="1b20be54d05e57bccd75402482e43172e3656de6f25f38f4aeac9bb0b45f19d7",
        encoding="windows-1252",
    ),
    Text(
        name="paradise-lost",
        kind="verse (Milton)",
        licence=PUBLIC,
        repository="GITenberg/Paradise-Lost_20",
        commit="6650cc0695a58de52b861ab1528c1d4b96f9036d",
        paths=("20-0.txt",),
        bytes=462846,
        sha256="9eac11b3bbcfb40ecd5c2e29860f0ed4569e153307f2ade13fc9ec77a9e69ed9",
    ),
    Text(
        name="lua",
        kind="sources in C",
        licence="MIT",
        repository="lua/lua",
        commit="53b41d0cddd80bf33fdc631bdd32e3ba53842b89",
        paths=tuple(
            """
            lapi.c lapi.h lauxlib.c lauxlib.h lbaselib.c lcode.c lcode.h lcorolib.c lctype.c
            lctype.h ldblib.c ldebug.c ldebug.h ldo.c ldo.h ldump.c lfunc.c lfunc.h lgc.c lgc.h
            linit.c liolib.c ljumptab.h llex.c llex.h llimits.h lmathlib.c lmem.c lmem.h loadlib.c
            lobject.c lobject.h lopcodes.c lopcodes.h lopnames.h loslib.c lparser.c lparser.h
            lprefix.h lstate.c lstate.h lstring.c lstring.h lstrlib.c ltable.c ltable.h ltablib.c
            ltests.c ltests.h ltm.c ltm.h lua.c lua.h luaconf.h lualib.h lundump.c lundump.h
            lutf8lib.c lvm.c lvm.h lzio.c lzio.h onelua.c
            """.split()
        ),
        bytes=999715,
        sha256="5e96a2e932c729ee1227a60fe7bda914362ee967dacb0cc7d6ef8885d4ec7558",
    ),
    Text(
        name="tornado",
        kind="sources in Python",
        licence="Apache-2.0",
        repository="tornadoweb/tornado",
        commit="e530031405e2154654dedc4c84d5656b557ea310",
        paths=tuple(
            f"tornado/{name}.py"
            for name in """
            __init__ _locale_data auth autoreload concurrent curl_httpclient escape gen
            http1connection httpclient httpserver httputil ioloop iostream locale locks log netutil
            options process queues routing simple_httpclient tcpclient tcpserver template testing
            util web websocket wsgi
            """.split()
        ),
        bytes=898280,
        sha256="c8b08c55b9f06471b0b1651fe981d3d28712505295717cbc50c7c31914d6a157",
    ),
    Text(
        name="apache-logs",
        kind="the log of a web server",
        licence="Apache-2.0",
        repository="elastic/examples",
        commit="6d86454ebb7a850bcd7e80abe86fe683370018a6",
        paths=("Common Data Formats/apache_logs/apache_logs",),
        bytes=925161,
        sha256="adf985a21b2a4b4df7c5e1a19d23a08781b547462d871ec6eabb4af7a057bb24",
        lines=4000,
    ),
)
"""Ten of ten kinds."""
MORE = (
    Text(
        name="silas-marner",
        kind="a novel (Eliot)",
        licence=PUBLIC,
        repository="GITenberg/Silas-Marner_550",
        commit="a4c56c3b0a355f69ceba3fb73adf25579ad3ddd9",
        paths=("550.txt",),
        bytes=394205,
        sha256="b13d0f6716cb6b3b00852886b02abad7e8bc5e99952887da558bb9eca1c4ce19",
    ),
    Text(
        name="jack-sheppard",
        kind="a novel (Ainsworth)",
        licence=PUBLIC,
        repository="GITenberg/Jack-Sheppard--A-Romance_16215",
        commit="53c2275d68a942a3c29d037179f8b89c9b094c3f",
        paths=("16215-8.txt",),
        bytes=895129,
        sha256="2312f3d98aad6a8c5d808b0e7a838d2f01defe98816d431c3df43f6bd14d10ce",
        encoding="latin-1",
    ),
    Text(
        name="candida",
        kind="a play (Shaw)",
        licence=PUBLIC,
        repository="GITenberg/Candida_4023",
        commit="f00d6bc566dac0bdf6b99663a28c41c3d16649fb",
        paths=("4023.txt",),
        bytes=129903,
        sha256="a68217c6a83f6d45cdcbd783e60873a07a76978e253f605e3d4deeeec098fe36",
    ),
    Text(
        name="mind-the-paint-girl",
        kind="a play (Pinero)",
        licence=PUBLIC,
        repository="GITenberg/The-Mind-the-Paint-Girl--13-A-Comedy-in-Four-Acts_21849",
        commit="612601ef3a64fd410166f8c081c111072c09ba48",
        paths=("21849-8.txt",),
        bytes=213428,
        sha256="1d7176d6eea22b86b008a14ccbdf4f201b590a087da083903e2e7be21170984a",
        encoding="latin-1",
    ),
    Text(
        name="devils-dictionary",
        kind="a dictionary (Bierce)",
        licence=PUBLIC,
        repository="GITenberg/The-Devil-s-Dictionary_972",
        commit="fcea6b9736136ae4bd6bb76b398d56b7cd62e3c8",
        paths=("972.txt",),
        bytes=365149,
        sha256="c01a68ad75452dd78ab01751b9da931cd924527073077092f1e538670eab70b2",
    ),
    Text(
        name="dom-casmurro",
        kind="Portuguese prose (Machado de Assis)",
        licence=PUBLIC,
        repository="GITenberg/Dom-Casmurro_55752",
        commit="61bc683465086ab39778e69673e89171c0f84ee5",
        paths=("55752-8.txt",),
        bytes=389746,
        sha256="1b53ca2c5aee4206f6b392fac6ff75fd53c67f64955a3440d9e0f93621cabacb",
        encoding="latin-1",
    ),
    Text(
        name="juha",
        kind="Finnish prose (Aho)",
        licence=PUBLIC,
        repository="GITenberg/Juha_10863",
        commit="36472b57ac9a11752174058dc66eece328446359",
        paths=("10863-8.txt",),
        bytes=251461,
        sha256="1e46fb9ac0b972c31e04dba169bc69bb95df3d12b2b3c1913e6bf7d736b1d417",
        encoding="latin-1",
    ),
    Text(
        name="ontboezemingen",
        kind="Dutch prose",
        licence=PUBLIC,
        repository="GITenberg/Ontboezemingen_24675",
        commit="f1b14d563164f3c6ad56e228533a2c723f717eff",
        paths=("24675-8.txt",),
        bytes=320776,
        sha256="33dae57194dc82f3b6fc0d4a51f08ea30194667a2ab55d094c1c5c7a7f836b28",
        encoding="latin-1",
    ),
    Text(
        name="li0211",
        kind="Italian prose",
        licence="public domain",
        repository="cligs/textbox",
        commit="1b91e940475c8a7e866457a3953fed5edb0a29f1",
        paths=("italian/romanzi/txt_id/li0211.txt",),
        bytes=464270,
        sha256="7ac99cfb0aa1b57e870be34fbd7d03750beef987d08cca2c6005e511eae5b90f",
    ),
    Text(
        name="nh0081",
        kind="Spanish prose",
        licence="public domain",
        repository="cligs/textbox",
        commit="1b91e940475c8a7e866457a3953fed5edb0a29f1",
        paths=("spanish/novela-hispanoamericana/txt_id/nh0081.txt",),
        bytes=494873,
        sha256="cde89ce31d829e42def0f388f46459683180555b457c8ce94039c7aacb28b6f9",
    ),
    Text(
        name="corneille",
        kind="French plays in verse",
        licence="public domain",
        repository="cligs/textbox",
        commit="1b91e940475c8a7e866457a3953fed5edb0a29f1",
        paths=tuple(
            f"french/theatre17/txt/{name}.txt"
            for name in """
            CorneilleT_Amour-mode_tc0140 CorneilleT_Camma_tc0884
            CorneilleT_Darius_tc0606 CorneilleT_Maximian_tc0905
            CorneilleT_Stilicon_tc0570 CorneilleT_Timocrate_tc0052
            """.split()
        ),
        bytes=579667,
        sha256="26e86628d169141c83b9f6d1b69a4992fcf81084a66db4cc9c333e592979740c",
    ),
    Text(
        name="irc",
        kind="a channel's messages, in JSON",
        licence="MIT",
        repository="Glose/irclogs",
        commit="d8eac2daa8817f6d3c00eb1ac5a71072015b19a3",
        paths=("logs.sample",),
        bytes=460705,
        sha256="bf9fe567fd1381d0d62e954ccc7fd0e4779a323f613e69ce71fd2691580cb007",
        lines=2500,
    ),
    Text(
        name="cobra",
        kind="sources in Go",
        licence="Apache-2.0",
        repository="spf13/cobra",
        commit="adbc8813901bba65827259daa8e22ff94ec1f30e",
        paths=tuple(
            f"{name}.go"
            for name in """
            active_help args bash_completions bash_completionsV2 cobra command
            command_notwin command_win completions fish_completions flag_groups
            powershell_completions shell_completions zsh_completions
            """.split()
        ),
        bytes=207550,
        sha256="6315d29514a2a04d1e155770774b1c02913c62ec15415abd959f1e35f67153a2",
    ),
    Text(
        name="serde-json",
        kind="sources in Rust",
        licence="MIT or Apache-2.0",
        repository="serde-rs/json",
        commit="827a315bf2198558f0325b07bcc1e2cd973aba2f",
        paths=tuple(
            f"src/{name}.rs"
            for name in """
            de error iter lib macros map number raw read ser value/de value/from
            value/index value/mod value/ser
            """.split()
        ),
        bytes=424969,
        sha256="789ec722fddb9db2403d71f288a00a3d2fcacd2fa73f50808a3d205a85e0761d",
    ),
    Text(
        name="express",
        kind="sources in JavaScript",
        licence="MIT",
        repository="expressjs/express",
        commit="a3714473feb3d2908add734d340e7755fd85e0a3",
        paths=tuple(
            f"{name}.js"
            for name in """
            lib/application lib/express lib/request lib/response lib/utils lib/view
            test/app.all test/app.engine test/app.head test/app test/app.listen
            test/app.locals test/app.options test/app.param test/app.render
            test/app.request test/app.response test/app.route test/app.router
            test/app.routes.error test/app.use test/express.json test/express.raw
            test/express.static test/express.text test/express.urlencoded
            test/req.accepts test/req.acceptsCharsets test/req.acceptsEncodings
            test/req.acceptsLanguages test/req.baseUrl test/req.fresh test/req.get
            test/req.host test/req.hostname test/req.ip test/req.ips test/req.is
            test/req.path test/req.protocol test/req.query test/req.range test/req.route
            test/req.secure test/req.signedCookies test/req.stale test/req.subdomains
            test/req.xhr test/res.append test/res.attachment test/res.clearCookie
            test/res.cookie test/res.download test/res.format test/res.get test/res.json
            test/res.jsonp test/res.links test/res.locals test/res.location
            test/res.redirect test/res.render test/res.send test/res.sendFile
            test/res.sendStatus test/res.set test/res.status test/res.type test/res.vary
            """.split()
        ),
        bytes=430820,
        sha256="09d3b2b2e74aeaa2416f0694567d224c1c922bf5750ef8ff6595ef78262fd3a6",
    ),
    Text(
        name="gson",
        kind="sources in Java",
        licence="Apache-2.0",
        repository="google/gson",
        commit="9835b6f90192f79cdf5300c528fc6212455fb6c1",
        paths=tuple(
            f"gson/src/main/java/com/google/gson/{name}.java"
            for name in """
            ExclusionStrategy FieldAttributes FieldNamingPolicy FieldNamingStrategy
            FormattingStyle Gson GsonBuilder InstanceCreator JsonArray
            JsonDeserializationContext JsonDeserializer JsonElement JsonIOException
            JsonNull JsonObject JsonParseException JsonParser JsonPrimitive
            JsonSerializationContext JsonSerializer JsonStreamParser JsonSyntaxException
            LongSerializationPolicy ReflectionAccessFilter Strictness ToNumberPolicy
            ToNumberStrategy TypeAdapter TypeAdapterFactory stream/JsonReader
            stream/JsonScope stream/JsonToken stream/JsonWriter
            """.split()
        ),
        bytes=346303,
        sha256="5bc102f9c6f6014fd64311ef6f2454ed4ff7ccd305048fccad33d2664238dc8f",
    ),
    Text(
        name="rust-book",
        kind="documentation in Markdown",
        licence="MIT or Apache-2.0",
        repository="rust-lang/book",
        commit="917544888a55e4da7109bdba8c88c893c0da70f4",
        paths=tuple(
            f"src/{name}.md"
            for name in """
            ch01-00-getting-started ch01-01-installation ch01-02-hello-world
            ch01-03-hello-cargo ch02-00-guessing-game-tutorial
            ch03-00-common-programming-concepts ch03-01-variables-and-mutability
            ch03-02-data-types ch03-03-how-functions-work ch03-04-comments
            ch03-05-control-flow ch04-00-understanding-ownership
            ch04-01-what-is-ownership ch04-02-references-and-borrowing ch04-03-slices
            ch05-00-structs ch05-01-defining-structs ch05-02-example-structs
            ch05-03-method-syntax ch06-00-enums ch06-01-defining-an-enum ch06-02-match
            ch06-03-if-let
            ch07-00-managing-growing-projects-with-packages-crates-and-modules
            ch07-01-packages-and-crates
            ch07-02-defining-modules-to-control-scope-and-privacy
            ch07-03-paths-for-referring-to-an-item-in-the-module-tree
            ch07-04-bringing-paths-into-scope-with-the-use-keyword
            ch07-05-separating-modules-into-different-files ch08-00-common-collections
            ch08-01-vectors ch08-02-strings ch08-03-hash-maps ch09-00-error-handling
            ch09-01-unrecoverable-errors-with-panic
            ch09-02-recoverable-errors-with-result ch09-03-to-panic-or-not-to-panic
            """.split()
        ),
        bytes=388924,
        sha256="b12a3618db65b1fe36ada1f59b68be9b18d2869ea27ead7785bad553fd6a171f",
    ),
    Text(
        name="jekyll-history",
        kind="a list of changes in Markdown",
        licence="MIT",
        repository="jekyll/jekyll",
        commit="202df571314ba1d18e9fccd81d12aaad4a703c38",
        paths=("History.markdown",),
        bytes=191104,
        sha256="e708032f7e24bb858ddfc9a507d83249f4162e068ab673412caa8a5839323bf1",
    ),
    Text(
        name="population",
        kind="a table of numbers",
        licence="public domain",
        repository="datasets/population",
        commit="425fc447a53a26c767a15a7de60c4cc2478a0595",
        paths=("data/population.csv",),
        bytes=534916,
        sha256="3d1547b84362500e9a958740449a1520d711f72f58f9122eda9dad44473e7650",
    ),
    Text(
        name="openstack-logs",
        kind="the log of a cloud",
        licence="research",
        repository="logpai/loghub",
        commit="dd61d0952749ee7963bde24220d1be5ede023033",
        paths=("OpenStack/OpenStack_2k.log",),
        bytes=593120,
        sha256="6ea7e03648d7bd6231cae427cb509073a9fbc71f49ded5301673495902edab17",
    ),
)
"""Twenty that promises are tried on, too."""


def fetched(text: Text, path: str, cache: Path) -> bytes:
    """A part, from its address or a mirror of it. Raises CorpusError, StorageError."""
    place = quote(f"{text.repository}/{text.commit}/{path}")
    part = Entry(
        name=f"{text.name}/{path}",
        title=text.kind,
        address=f"https://raw.githubusercontent.com/{place}",
        file=place,
        licence=text.licence,
        about=round(text.bytes / len(text.paths) / 1e6, 3),
    )
    return fetch_entry(
        part, cache, user_mirrors(), False, say, lambda done, total: None, time.sleep
    ).path.read_bytes()


def cloned(text: Text, path: str, clones: Path) -> bytes:
    """A part, from a clone of its repository. Raises CalledProcessError."""
    clone = clones / text.repository.replace("/", "+")
    shown = ["git", "-C", str(clone), "show", f"{text.commit}:{path}"]
    return subprocess.run(shown, check=True, stdout=subprocess.PIPE).stdout


def made(text: Text, part: Callable[[Text, str], bytes]) -> bytes:
    """The text from its parts. Raises CorpusError."""
    read = (decoded(io.BytesIO(part(text, path)), path, text.encoding, say) for path in text.paths)
    whole = "".join("".join(without_gutenberg(pieces, lambda header, licence: None)) for pieces in read)
    return "".join(islice(io.StringIO(whole), text.lines)).encode()


def say(sentence: str) -> None:
    """What goes on."""
    print(sentence, file=sys.stderr, flush=True)


def main() -> None:
    """The texts that are missing, a table of all, a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="clones", type=Path, help="a folder of clones, named OWNER+NAME")
    parser.add_argument("--more", action="store_true", help="thirty texts")
    given = parser.parse_args()
    texts = TEXTS + MORE * given.more
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="octavo-texts-") as cache:
        part = partial(cloned, clones=given.clones) if given.clones else partial(fetched, cache=Path(cache))
        for text in texts:
            path = given.folder / f"{text.name}.txt"
            if path.exists():
                if path.is_file() and file_hash(path) == text.sha256:
                    continue
                sys.exit(f"{path} is something else; give another folder")
            with written_aside(path) as aside:
                aside.write_bytes(made(text, part))
                if (found := file_hash(aside)) != text.sha256:
                    sys.exit(f"{text.name} has the SHA-256 {found}, not {text.sha256}; it is not kept")
    columns = "name", "kind", "bytes", "licence", "repository", "commit", "sha256"
    rows = [{column: getattr(text, column) for column in columns} for text in texts]
    print_table([{column: row[column] for column in columns[:-2]} for row in rows])
    finish({"rows": rows})


if __name__ == "__main__":
    main()
