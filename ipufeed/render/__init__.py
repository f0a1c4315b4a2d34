"""Makes text out of numbers and names: for terminals, HTML pages, SVG pictures, files.

    units          numbers, durations and sizes with their units
    terminal       paragraphs and help as wide as the terminal
    terminal_text  text from files and programs, safe for a terminal
    text, html     escaped text, one self-contained document; page.css is its style
    svg            axes and legends
    files          files that are written atomically

A page can show data of any origin: text is escaped, numbers are checked, and a content
security policy forbids the browser to load or run anything. Uses no other folder.
"""
