"""Programs of a simulated IPU: compile, loops, scopes, strategy, steps, the clock.

Uses config, flags and system, and ipufeed.queues.
"""
