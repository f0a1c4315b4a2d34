"""`ipufeed.executable.trace`: records events and writes a Chrome trace.

Uses program and hlo.

This room is not called `trace`: importing a package of that name would hide the function.
"""
