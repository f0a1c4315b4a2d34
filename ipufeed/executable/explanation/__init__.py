"""Why a program was compiled again: the differences between two programs as causes.

Uses hlo, program and store.

The public function is `ipufeed.executable.explain`. The package is not called `explain`:
importing it would hide the function.
"""
