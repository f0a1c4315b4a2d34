"""The pages on the models have the bugs that are planted in them."""

import re

from helpers import ROOT

MODELS = ROOT / "tests" / "models"
MACRO = re.compile(r"(?:def|defined\()\s*PLANT_(\w+)")


def test_the_tables_have_each_planted_bug():
    """One row for each bug of each model; the README's count is that of all."""
    planted = [
        name
        for model in MODELS.glob("*.pml")
        for name in set(MACRO.findall(model.read_text()))
    ]
    rows = re.findall(r"^\| (`[A-Z].+?) \|", (MODELS / "README.md").read_text(), re.M)

    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(planted)
    assert f"with {len(planted)} planted bugs" in (ROOT / "README.md").read_text()
