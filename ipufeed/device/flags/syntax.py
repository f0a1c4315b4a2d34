"""The syntax of TF_POPLAR_FLAGS: flags between white space, values that may be quoted.

    --use_ipu_model  --max_infeed_threads=4  --executable_cache_path="/tmp/my cache"

A value follows `=`. In double quotes a backslash makes the next character literal; in
single quotes everything is. Which flags there are is in flags.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A value's end is where the quote ends, or the text if it never does.
_FLAG = re.compile(
    r"""(?P<name>[^\s=]+)
        (?: = (?: "(?P<double>(?:\\.|[^"\\])*)(?:"|\\?$)
                | '(?P<single>[^']*)(?:'|$)
                | (?P<bare>\S*)
              )
        )?""",
    re.VERBOSE | re.DOTALL,
)


def split_flags(text: str) -> Iterator[tuple[str, str | None]]:
    """Gives each flag's name, with its dashes, and its value; None if there is no `=`."""
    for match in _FLAG.finditer(text):
        if match["double"] is not None:
            yield match["name"], re.sub(r"\\(.)", r"\1", match["double"], flags=re.S)
        else:
            value = match["single"] if match["single"] is not None else match["bare"]
            yield match["name"], value


def parse_bool(text: str | None) -> bool:
    """`--flag` and `--flag=true` are True, `--flag=false` is False; raises ValueError."""
    values = {None: True, "true": True, "1": True, "false": False, "0": False}
    lowered = text.lower() if text is not None else None
    if lowered not in values:
        raise ValueError(f"must be true or false, got {text!r}")
    return values[lowered]


def parse_int(text: str | None) -> int:
    """A decimal number; raises ValueError."""
    if text is None or not re.fullmatch(r"[-+]?[0-9]+", text):
        raise ValueError(f"must be an integer (`=5`), got {text or 'no value'!r}")
    return int(text)


def parse_str(text: str | None) -> str:
    """Any text, but there must be one; raises ValueError."""
    if text is None:
        raise ValueError("needs a value, after `=`")
    return text
