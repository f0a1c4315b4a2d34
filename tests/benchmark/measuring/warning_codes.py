"""Codes of a result's warnings."""


def codes(result):
    """The codes of a result's warnings."""
    return {warning["code"] for warning in result.warnings}
