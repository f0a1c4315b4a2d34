"""python -m ipufeed.executable COMMAND: looks at compiled programs and their reports."""

from __future__ import annotations

import argparse
import importlib
import sys

# What each does, and the module that does it: with add_arguments() and run().
COMMANDS = {
    "report": ("a page of autoReport's reports", "report_command"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ipufeed.executable")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (what, module) in COMMANDS.items():
        command = commands.add_parser(name, help=what)
        own = importlib.import_module(f"ipufeed.executable.{module}")
        own.add_arguments(command)
        command.set_defaults(run=own.run)
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
