"""What to change in a pipeline: advice, its verification, `--what-if`.

Uses stages, measuring, graph and loaders, and what is below them.
"""
