"""The syntax of TF_POPLAR_FLAGS: flags between white space, values that may be quoted.

    --use_ipu_model  --max_infeed_threads=4  --executable_cache_path="/tmp/my cache"

A value follows `=`. In double quotes a backslash makes the next character literal; in
single quotes all characters are literal. The flags are in flags.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A quoted value ends at the closing quote, or at the end of the text.
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
    """Yields each flag's name, with its dashes, and its value; None without `=`."""
    for match in _FLAG.finditer(text):
        if match["double"] is not None:
            yield match["name"], re.sub(r"\\(.)", r"\1", match["double"], flags=re.S)
        else:
            value = match["single"] if match["single"] is not None else match["bare"]
            yield match["name"], value


def parse_bool(text: str | None) -> bool:
    """Parses a bool: True also without a value; raises ValueError."""
    values = {None: True, "true": True, "1": True, "false": False, "0": False}
    lowered = text.lower() if text is not None else None
    if lowered not in values:
        raise ValueError(f"must be true or false, got {text!r}")
    return values[lowered]


def parse_int(text: str | None) -> int:
    """Parses a decimal number; raises ValueError."""
    if text is None or not re.fullmatch(r"[-+]?[0-9]+", text):
        raise ValueError(f"must be an integer (`=5`), got {text or 'no value'!r}")
    return int(text)


def parse_str(text: str | None) -> str:
    """Returns the text; raises ValueError without a value."""
    if text is None:
        raise ValueError("needs a value, after `=`")
    return text
