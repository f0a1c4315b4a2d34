"""The words of a comparison's verdict and of a gate's; without NumPy, for the options."""

BETTER, WORSE, CANNOT_TELL = "better", "worse", "cannot tell"
HELD, SLOWER = "held", "slower"  # verdicts of a gate, with CANNOT_TELL
