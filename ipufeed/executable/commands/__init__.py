"""The subcommands of `python -m ipufeed.executable`: one module each.

A module has `add_arguments(parser)` and `run(options) -> int`, and imports slow modules
in `run` only. Uses explanation, hlo, program, report and store.
"""
