"""Why a program was compiled again: the differences between two programs as causes.

Uses hlo, program and store.

The public function is `ipufeed.executable.explain`. This room is not called `explain`:
importing a package of that name would hide the function.
"""
