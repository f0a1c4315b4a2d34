"""`ipufeed.executable.trace`: records events and writes a Chrome trace.

Uses program and ipufeed.device.

The package is not called `trace`: importing it would hide the function.
"""
