"""Makes text out of numbers and names: for terminals, HTML pages, SVG pictures, files.

    units          numbers, durations and sizes with their units
    terminal       paragraphs and help as wide as the terminal
    terminal_text  names from files and programs, as a terminal may show them
    text, html     escaped text, one self-contained document; page.css is its style
    svg            axes and legends
    files          files that are written whole or not at all

A page shows data, of any origin: text is escaped, numbers are numbers, and a content
policy forbids the browser whatever else there might be. Uses no other package of ipufeed.
"""
