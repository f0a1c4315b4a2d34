"""What all pages share that the package writes: words, tables, the document around them.

    text       what came from outside as text, figures with their units
    document   one self-contained HTML file: no network, no script
    page.css   its style: light and dark, on paper, from 400 pixels up

A page shows data, whoever wrote it: text is escaped, numbers are numbers, and a content
policy forbids the browser whatever else there might be.
"""
