"""Views of a result: plain data in, text out.

    summary*   the text on stderr        failure   the sentence of an error
    page       one HTML page             pictures  its drawings
    trace      Chrome's trace format     parquet   a row for each window of time
    notebook   what Jupyter shows        files     writes what is asked for

A view takes whatever has a result's sections (protocols). Uses ipufeed.render, and
executable.tracing for the format of a trace.
"""
