"""Writes docs/api.md: `python tools/api_page.py`.

The page lists each public name of the original's Python interface with its state: it is
there, refused when it is called, or missing. tests/ops/test_api_page.py fails while the
page is not what this file would write.
"""

from __future__ import annotations

from pathlib import Path

from ipufeed import graphcore_names
from ipufeed.ops import refused

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"

# Names of the original's that do not exist here, by module.
MISSING: dict[str, str] = {}
HEAD = """# The original's names

Written by `python tools/api_page.py`. These are the modules below `tensorflow.python.ipu`
(`import ipufeed as ipu`: `ipu.ops.nn_ops`, ...) and their public names.

- **works**: the name is here; an argument without an effect logs a warning.
  [operations.md](operations.md), [programs.md](programs.md) and
  [pipelines.md](pipelines.md) list what differs.
- **refused**: the name can be imported; a call raises `ipufeed.errors.RefusedError`, which
  says what to use instead.
- **missing**: the name does not exist here.

| module | works | refused | missing |
|---|---|---|---|
"""


def rows() -> dict[str, dict[str, list[str]]]:
    """Returns each module's names by their state."""
    found: dict[str, dict[str, list[str]]] = {}
    seen: dict[int, str] = {}
    for module, names in graphcore_names.MODULES.items():
        if id(names) in seen or not names:
            continue  # the same module at a second place
        seen[id(names)] = module
        states = found.setdefault(module, {"works": [], "refused": [], "missing": []})
        for name, place in names.items():
            state = "refused" if place == refused.__name__ else "works"
            states[state].append(name)
    for module, names in MISSING.items():
        states = found.setdefault(module, {"works": [], "refused": [], "missing": []})
        states["missing"] += [
            each
            for each in names.split()
            if each not in graphcore_names.MODULES.get(module, ())
        ]
    return dict(sorted(found.items()))


def page() -> str:
    """Returns the text of the page."""
    lines = []
    for module, states in rows().items():
        cells = [
            ", ".join(f"`{name}`" for name in sorted(names))
            for names in states.values()
        ]
        lines.append(f"| `{module}` | {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
