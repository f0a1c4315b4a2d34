"""Views of a result: plain data in, text out.

    summary*   the text on stderr        failure   the message of an error
    page       one HTML page             pictures  its charts
    trace      Chrome's trace format     parquet   a row for each window of time
    notebook   what Jupyter shows        files     writes the requested reports

A view takes any object with a result's sections (protocols). The format
of a trace is that of executable.tracing. Uses ipufeed.executable.
"""
