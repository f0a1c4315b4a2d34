"""Programs of a simulated IPU: compile, loops, scopes, strategy, steps, the clock.

Uses log, system and ipufeed.queues.
"""
