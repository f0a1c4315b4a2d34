"""The evidence of a run as files, each with what the JSON says and more to look at.

options     --parquet, --trace, --html
files       which of them are asked for, and writing them
parquet     a row for each window of time
trace       Chrome's trace format, for Perfetto
page        one HTML page        pictures, axes: its drawings
stored      the same from a JSON that is already there
notebook    what Jupyter shows of a result
"""
