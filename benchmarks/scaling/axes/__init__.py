"""A module for each amount of work: `measure(quick)` returns its `Axis`."""
