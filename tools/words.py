"""Finds words that the project's texts do not use: `python tools/words.py [PATH...]`.

The subject of a sentence is a thing with a name, such as the caller or the feeder. Read
are the comments, strings and names of tests of .py files, and .md, .h and .cc files whole:
those of CLEAN, or the given files and folders. Prints a line for each find; the exit code
is then 1.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Files and folders without finds.
CLEAN = (
    *("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "docs", "ipufeed", "benchmarks"),
    *("examples", "tests", "tools"),
    *("noxfile.py", "pytest_ipufeed.py", "setup.py"),
)
# Files that list the words themselves.
LISTS = {"tests/tools/test_words.py", "tools/words.py"}
SUFFIXES = (".cc", ".h", ".md", ".py")

NAMED = "name the subject: the caller, the reader, the process"
# Between two words, which may be on two lines of a comment or of a string.
GAP = r"(?: |\s*[\"']?\s*\n[\s#/>*]*f?[\"']?\s*)"
IS = "(?:is|are|was|were|be|been)"
# A find, if its group takes part; and what to write instead.
FORMS = (
    (r"\b(who(?:ever|m|mever)?)\b", NAMED),
    (r"\b((?:no|some|any|every)body|someone|anyone)\b", NAMED),
    (r"\b(anew)\b", "again, or restart"),
    (r"\b(thereof)\b", "of it"),
    (r"\b(beside)\b", "next to, in addition to, during"),
    (rf"\b(so{GAP}many)\b", "this many, or the argument's name"),
    (r"\b(said|told|complains?)\b", "reported, logged, raised, recorded"),
    # `cannot tell` is a verdict of `compare`, which programs read.
    (rf"\bcannot{GAP}tell\b|\b(tells?)\b", "reports, shows, distinguishes"),
    (rf"\b(says?{GAP}of)\b", "the message of, the text on"),
    (r"\b(hears?)\b", "gets, receives"),
    (r"\b(meetings?|rendezvous)\b", "a collective, or the barrier"),
    (r"\b(chips?)\b", "an IPU"),
    (
        rf"\bthere{GAP}(?:\w+{GAP})?{IS}{GAP}no\b"
        rf"|\b({IS}{GAP}no)(?={GAP}\w)(?!{GAP}(?:longer|more|larger)\b)",
        "is not a",
    ),
    (rf"\b(of{GAP}ours)\b", "of ipufeed, or its name"),
    (rf"\b(does{GAP}no{GAP}harm)\b", "is idempotent"),
    (rf"\b(so{GAP}often)\b", "this number of times, or the argument's name"),
    (rf"\b(once{GAP}more)\b", "again"),
    (rf"\b(in{GAP}silence|without{GAP}a{GAP}word)\b", "silently"),
    (rf"\b(looks{GAP}(?:at|into))\b", "checks, reads, visits"),
    (r"\b(meanwhile)\b", "since then, during the call"),
    (rf"\b(the{GAP}way{GAP}out|cure)\b", "the remedy"),
    (rf"\b(takes?{GAP}turns)\b", "alternates, shares"),
    (rf"\b(in{GAP}turns?)\b", "alternately"),
    (rf"\b(hides?{GAP}behind)\b", "is overlapped by"),
    (rf"\b((?:holds?|held){GAP}(?:\w+{GAP}){{0,3}}up)\b", "is the bottleneck of"),
    (rf"\b(next{GAP}to{GAP}nothing)\b", "the amount, or a bound of it"),
    (rf"\b(for{GAP}ever)\b", "infinite, without an end"),
    (rf"\b(asked{GAP}for)\b", "requested, or the option's name"),
    (rf"\b(for{GAP}people)\b", "as text"),
    (rf"\b(?:a|of|the|this){GAP}(shares?)\b", "fraction"),
    (rf"\b(so{GAP}long)\b(?!{GAP}as)", "this long, or the duration's name"),
    (r"\b(stretch(?:es)?)\b", "interval, window"),
)
PATTERNS = [(re.compile(form, re.IGNORECASE), instead) for form, instead in FORMS]
# The name of a test is a sentence, to which these apply, too.
NAME = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
NAME_PATTERNS = [*PATTERNS, (re.compile(r"\b(says?)\b"), "names, reports, shows")]

# (path, text of the line) -> why it stays, such as a quoted message of TensorFlow's.
ROWS = "a row of a trace, which programs read"
EXCEPTIONS = {
    ("docs/glossary.md", "chip (in rows of traces)"): ROWS,
    ("docs/reports.md", "chip 1"): ROWS,
    ("docs/reports.md", "on chip 0"): ROWS,
    ("docs/reports.md", "from chip 0"): ROWS,
    ("ipufeed/cc/xla/calls/pipeline_calls.cc", " on chip "): ROWS,
    ("ipufeed/executable/tracing/chrome.py", "pipeline from chip"): ROWS,
    ("ipufeed/parallel/timelines/timeline.py", " on chip "): ROWS,
    ("tests/parallel/pipeline/test_timeline.py", "on chip 0"): ROWS,
    ("tests/benchmark/cli/test_command_device.py", "{model}-{chip}"): "GPUs",
    ("examples/records.py", "TEXT = "): "words that the example reads",
    ("docs/ci.md", "# no reason to stop anybody"): "code of an example",
}


def texts_of(source: str) -> str:
    """Returns Python source with blanks for all but its comments and strings."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    lines = source.splitlines()
    kept = [[" "] * len(line) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in kinds:
            continue
        (first, begin), (last, end) = token.start, token.end
        for row in range(first, last + 1):
            part = slice(
                begin if row == first else 0,
                end if row == last else len(lines[row - 1]),
            )
            kept[row - 1][part] = lines[row - 1][part]
    return "\n".join("".join(line) for line in kept)


def in_names(path: str, source: str) -> Iterator[str]:
    """Gives `path:line: form: what to write` for each find in the name of a test."""
    for name in NAME.finditer(source):
        sentence = name[1].replace("_", " ")
        for pattern, instead in NAME_PATTERNS:
            for match in pattern.finditer(sentence):
                if match[1] is not None:
                    row = source.count("\n", 0, name.start(1))
                    yield f"{path}:{row + 1}: {name[1]}: {match[1]}: {instead}"


def finds(path: str, source: str) -> Iterator[str]:
    """Gives `path:line: form: what to write` for each find, in order of the forms."""
    if path.endswith(".py"):
        yield from in_names(path, source)
    lines = source.splitlines()
    text = texts_of(source) if path.endswith(".py") else source
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(text):
            if match[1] is None:
                continue
            row = text.count("\n", 0, match.start(1))
            if any(path == at and words in lines[row] for at, words in EXCEPTIONS):
                continue
            first, *_, last = re.findall(r"\w+", match[1]) * 2
            form = first if first == last else f"{first} {last}"
            yield f"{path}:{row + 1}: {form}: {instead}"


def files_of(names: tuple[str, ...]) -> Iterator[Path]:
    """Gives the files to read."""
    for name in names:
        path = ROOT / name
        for each in [path] if path.is_file() else sorted(path.rglob("*")):
            listed = each.relative_to(ROOT).as_posix() in LISTS
            if each.is_file() and each.suffix in SUFFIXES and not listed:
                yield each


def main(names: tuple[str, ...]) -> int:
    """Prints the finds; returns 1 if there are any."""
    found = [
        line
        for path in files_of(names or CLEAN)
        for line in finds(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
