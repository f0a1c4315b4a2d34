"""python -m ipufeed.executable: see `--help`.

Exit codes: 0 done, 1 a file is damaged or unsafe, or two programs differ (`diff`), 2 bad
input.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from types import ModuleType

from ipufeed.errors import IpufeedError
from ipufeed.executable.commands.common import CommandError, wrapped
from ipufeed.exit_codes import BAD_INPUT
from ipufeed.render.terminal import HelpFormatter, Parser
from ipufeed.render.terminal_text import printable

NAME = "python -m ipufeed.executable"
# Subcommand -> its help; the module of the same name is in ipufeed.executable.commands.
COMMANDS = {
    "list": "the programs of a cache folder",
    "show": "what a program takes, is made of and was compiled for",
    "diff": "all that differs between two programs",
    "explain": "why a program was compiled again",
    "check": "whether each file is whole and safe; exit code 1 if one is not",
    "prune": "deletes old programs",
    "report": "a page of the reports that autoReport has written",
}

EPILOG = """\
DIR is a folder of .poplar_exec files; without it, that of
--executable_cache_path in TF_POPLAR_FLAGS. A program is named by its file,
or by its key in that folder.
Exit codes: 0 done; 1 a file is not whole or safe, two programs differ;
2 bad input.
`COMMAND --help` has the details."""


def _module_of(command: str) -> ModuleType:
    return importlib.import_module(f"ipufeed.executable.commands.{command}")


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=NAME,
        description="Compiled programs: what is in the executable cache, and why a\n"
        "program was compiled again.",
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, text in COMMANDS.items():
        module = _module_of(command)
        one = parsers.add_parser(
            command,
            help=text,
            description=module.__doc__,
            formatter_class=HelpFormatter,
        )
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs a subcommand and returns its exit code."""
    parser = _build_parser()
    options = parser.parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (CommandError, IpufeedError, LookupError, ValueError, OSError) as error:
        text = str(error.args[0]) if isinstance(error, LookupError) else str(error)
        print(
            wrapped(f"ipufeed.executable: {printable(text)}", stream=sys.stderr),
            file=sys.stderr,
        )
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
