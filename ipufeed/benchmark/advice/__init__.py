"""What to change in a pipeline: advice, its verification, `--what-if`.

Uses graph, loaders, measuring, result, stages and ipufeed.sources.
"""
