"""Text is wrapped for a terminal, and nowhere else; help fits 80 columns.

command --stderr--> a pseudo-terminal of N columns, or a pipe --> its lines
"""

import contextlib
import fcntl
import importlib
import io
import os
import pty
import re
import struct
import sys
import termios

import children
import pytest
from helpers import DEADLOCK_S, ROOT

from ipufeed.executable.commands.common import wrapped
from ipufeed.render.terminal import HelpFormatter, columns, paragraph, wrap

PARSERS = {
    "benchmark": ("ipufeed.benchmark.cli.options.parser", []),
    "benchmark compare": ("ipufeed.benchmark.cli.compare", []),
    "benchmark report": ("ipufeed.benchmark.cli.report", []),
    "benchmark selftest": ("ipufeed.benchmark.selftest", []),
    "executable": ("ipufeed.executable.__main__", []),
    **{
        f"executable {name}": ("ipufeed.executable.__main__", [name])
        for name in ("list", "show", "diff", "explain", "check", "prune", "report")
    },
    "run": ("ipufeed.run", []),
    "targets": ("benchmarks.targets.__main__", []),
}
LONG = "word " * 40


class Terminal(io.TextIOWrapper):
    """One end of a pseudo-terminal; `shown` is what has come out at the other."""

    def __init__(self, width):
        self.master, slave = pty.openpty()
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        super().__init__(io.FileIO(slave, "w"), write_through=True)

    def shown(self):
        self.close()  # a read gives what has come so far; the end comes behind all
        found = b""
        with contextlib.suppress(OSError):  # EIO, the end
            while part := os.read(self.master, 1 << 20):
                found += part
        os.close(self.master)
        return found.decode().replace("\r\n", "\n")


@pytest.fixture
def terminal():
    """Makes terminals of a width."""
    made = []

    def make(width):
        made.append(Terminal(width))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_terminal_has_columns_and_nothing_else_has(terminal, tmp_path):
    """At most 80 of them; none in a file, a pipe, memory, or where stderr is closed."""
    reading, writing = os.pipe()
    with open(tmp_path / "log", "w") as file, open(writing, "w") as pipe:
        os.close(reading)
        assert columns(file) is None
        assert columns(pipe) is None
    assert columns(file) is None
    assert columns(io.StringIO()) is None
    assert columns(None) is None
    assert [columns(terminal(width)) for width in (40, 80, 200, 0)] == [40, 80, 80, 80]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_paragraph_fits_its_terminal(terminal, width):
    """What follows the first line has an indentation of its own."""
    lines = paragraph(LONG, terminal(width), "- ", "    ")

    assert max(map(len, lines)) < min(width, 80)
    assert len(lines) > 1
    assert " ".join(line.strip("- ") for line in lines) == LONG.strip()


def test_a_paragraph_in_a_file_is_one_line(monkeypatch, tmp_path):
    """Also those of the benchmark and of the executables: grep finds their messages."""
    with open(tmp_path / "log", "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        monkeypatch.setattr(sys, "stdout", file)
        assert paragraph(LONG, file, "- ", "    ") == ["- " + LONG.strip()]
        assert wrap(LONG, "  ") == ["  " + LONG.strip()]
        assert wrapped(LONG, "  ", first="- ") == "- " + LONG.strip()


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("width", [80, 200])
def test_help_fits_its_terminal(monkeypatch, terminal, name, width):
    """Of each command and each sub-command: no line is wider."""
    module, arguments = PARSERS[name]
    if name in ("run", "targets"):  # their parsers are made where they are used
        main = importlib.import_module(module).main
    else:
        found = vars(importlib.import_module(module))
        main = found.get("build_parser", found.get("_build_parser"))().parse_args
    stdout = terminal(width)
    monkeypatch.setattr(sys, "argv", [name, *arguments, "--help"])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit, match="0"):
            main() if name == "targets" else main([*arguments, "--help"])
    lines = stdout.shown().splitlines()

    assert len(lines) > 4
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("name", ["benchmark", "benchmark compare", "executable"])
def test_an_error_fits_its_terminal(monkeypatch, terminal, name):
    """Also a long one, of a command or a sub-command; the exit code is argparse's."""
    module, _ = PARSERS[name]
    found = vars(importlib.import_module(module))
    parser = found.get("build_parser", found.get("_build_parser"))()
    stderr = terminal(80)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        with pytest.raises(SystemExit, match="2"):
            parser.error(LONG)
    lines = stderr.shown().splitlines()

    assert lines[0].startswith("usage: ")
    assert [line for line in lines if len(line) > 80] == []
    assert " ".join(map(str.strip, lines)).endswith(f"error: {LONG.strip()}")


def test_all_help_is_laid_out_by_one_formatter():
    """No other file asks for a terminal's size or wraps lines, and no parser is without."""
    for path in [
        *(ROOT / "ipufeed").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
    ]:
        text = path.read_text()
        if path.name == "terminal.py":
            continue
        assert "get_terminal_size" not in text, path
        assert not re.search(r"textwrap\.(wrap|fill|shorten)", text), path
        assert "COLUMNS" not in text, path
        if (ROOT / "ipufeed") in path.parents:
            parsers = text.count("Parser(")  # argparse's own as well
            assert text.count("formatter_class=HelpFormatter") >= parsers, path


@pytest.mark.process
def test_a_message_of_a_command_is_one_line_in_a_pipe():
    """From the start of the process to stderr."""
    path = "/no/such/folder/" + "x" * 70 + " and a name that goes on and on"
    for module, what in (
        ("ipufeed.executable", ["list", path]),
        ("ipufeed.benchmark", ["compare", path, path]),
    ):
        done = children.run(
            [sys.executable, "-m", module, *what],
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
            cwd=ROOT,
        )

        assert done.returncode == 2
        assert any(path in line for line in done.stderr.splitlines()), done.stderr


def test_a_long_line_of_a_description_is_wrapped_as_it_is_indented():
    """Shorter ones stay as they were laid out."""
    formatter = HelpFormatter("command", width=30)
    text = formatter._fill_text("a  b\n\n  " + "word " * 10, 30, "")

    assert text.splitlines()[:2] == ["a  b", ""]
    assert all(line.startswith("  word") for line in text.splitlines()[2:])
    assert max(map(len, text.splitlines())) <= 30
