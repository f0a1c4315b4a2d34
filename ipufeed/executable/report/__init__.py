"""autoReport's reports: memory, cost and graph of a program, and an HTML page of them.

Uses hlo, program and ipufeed.device.
"""
