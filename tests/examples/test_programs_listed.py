"""The descriptions of the programs of examples/ipu."""

import re

import pytest
from example_programs import FILES, PROGRAMS, ROOT

NAMES = sorted(FILES)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_documents_what_it_prints(name):
    """Its docstring has a line on what it shows, and an indented part with its output."""
    docstring = FILES[name].read_text().split('"""')[1]

    assert "prints" in docstring.lower() or "then stands" in docstring
    assert re.search(r"^ {4}\S", docstring, re.MULTILINE)


def test_the_readme_names_every_program():
    """Each file is in the table of examples/README.md, and each row has a file."""
    readme = (ROOT / "examples" / "README.md").read_text()

    rows = re.findall(r"^\| `ipu/(\w+/\w+\.py)` \|", readme, re.MULTILINE)
    files = [str(path.relative_to(PROGRAMS)) for path in FILES.values()]
    assert sorted(rows) == sorted(files)
