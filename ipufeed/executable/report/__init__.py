"""The reports of autoReport: profile, memory, cost, graph, and the page made of them.

Uses hlo, program and store.
"""
