"""A self-contained HTML document, and the parts that pages are made of.

Source: the policy is "Content Security Policy Level 3", W3C: the browser loads and runs
nothing, and applies only the style whose hash is in the policy.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from string import Template

from ipufeed.render.text import escaped, short

POLICY = (
    "default-src 'none'; style-src '$hash'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
PAGE = Template(
    """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>$style</style></head><body><main>
$body
</main></body></html>
"""
)


def document(title: str, body: str, style: str = "") -> str:
    """Returns a page.

    Args:
        title: Text, not yet escaped.
        body: Safe HTML: text from outside must be escaped already.
        style: CSS to add after page.css.
    """
    base = resources.files("ipufeed.render").joinpath("page.css")
    whole = base.read_text(encoding="utf-8") + style
    digest = base64.b64encode(hashlib.sha256(whole.encode()).digest()).decode()
    return PAGE.substitute(
        policy=Template(POLICY).substitute(hash=f"sha256-{digest}"),
        title=escaped(short(title, 120)),
        style=whole,
        body=body,
    )


def tiles(figures: list[tuple[str, str, str]]) -> str:
    """Returns the main figures as HTML: name, value and note of each."""
    cells = (
        f"<div><dt>{name}</dt><dd>{value} <small>{note}</small></dd></div>"
        for name, value, note in figures
    )
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def table(heads: list[str], rows: list[list[str]], left: int = 1) -> str:
    """Returns a table of safe HTML; the first `left` columns are text, others figures."""

    def cells(tag: str, values: list[str]) -> str:
        return "".join(
            f"<{tag}{'' if index < left else ' class=n'}>{value}</{tag}>"
            for index, value in enumerate(values)
        )

    head = f"<thead><tr>{cells('th', heads)}</tr></thead>" if heads else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0"><table>{head}<tbody>{body}</tbody>'
        "</table></div>"
    )
