"""The exit codes of the commands; each has one meaning in all of them.

Ctrl-C and SIGTERM end a command with 130 and 143, as a shell reports signals.
"""

from __future__ import annotations

OK = 0
# The command has found what it looks for: a failed check, a lost gate, a damaged file.
FOUND_BAD = 1
BAD_INPUT = 2
# A gate that neither held nor failed.
UNDECIDED = 3
NOTHING_MEASURED = 4
