"""The seed of a test run: random and printed, or given as IPUFEED_TEST_SEED.

Native test programs read the same variable (tests/cc/check.h), and processes that tests
start inherit it: a failure is repeated with the seed that the report names.
"""

import os
import random
import secrets

NAME = "IPUFEED_TEST_SEED"


def choose(environment=os.environ):
    """Sets the variable unless it is set; returns the seed."""
    environment.setdefault(NAME, str(secrets.randbelow(2**31)))
    text = environment[NAME]
    if not text.isdecimal():
        raise ValueError(f"{NAME} must be an integer of at least 0, got {text!r}.")
    return int(text)


def generator(*names):
    """Returns a random.Random of its own for each combination of names."""
    return random.Random(repr((choose(), *names)))
