"""Builds the documentation as a site: `python tools/docs_site.py`, by `nox -s docs`.

    README.md, docs/, ... --copied--> build/site_pages --mkdocs --strict--> build/site

The pages keep their places relative to each other, so that a link works on the site as it
does in the repository. A page's links to files of the repository (sources, examples) are
copied, too. A dead link, a dead anchor, or a page that no entry of mkdocs.yml names fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "site_pages"
OTHERS = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ipufeed/cc/README.md"),
    *("tests/faults/README.md", "tests/models/README.md"),
    *("tests/cc/standin/README.md", "benchmarks/peers/jobs/README.md"),
    *("examples/README.md",),
)
STYLE = Path(__file__).with_name("site.css")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def pages() -> list[Path]:
    """Returns the pages of the site, relative to the project's root."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return [*map(Path, OTHERS), *(path.relative_to(ROOT) for path in docs)]


def linked_files(page: Path) -> set[Path]:
    """Returns the files of the repository, other than pages, that a page links to."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {(ROOT / page.parent / name).resolve() for name in LINK.findall(text)}
    return {
        path.relative_to(ROOT)
        for path in found
        if path.is_file() and path.suffix != ".md" and path.is_relative_to(ROOT)
    }


def lay_out() -> None:
    """Copies the pages, and what they link to, into an empty folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for page in pages():
        for each in (page, *linked_files(page)):
            (PAGES / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / each, PAGES / each)
    shutil.copyfile(STYLE, PAGES / STYLE.name)


def main() -> int:
    lay_out()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
