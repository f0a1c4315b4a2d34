"""The subcommands of `python -m ipufeed.executable`: one module each.

A module has `add_arguments(parser)` and `run(options) -> int`, and imports what is slow in
`run` only. Uses every room of ipufeed.executable except compile, and ipufeed.render.
"""
