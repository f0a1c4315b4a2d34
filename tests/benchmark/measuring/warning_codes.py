"""Codes of a result's warnings."""


def codes(result):
    return {warning["code"] for warning in result.warnings}
