"""What to change in a pipeline: advice, its verification, `--what-if`.

Uses the rooms stages, measuring and graph, and what is below them.
"""
