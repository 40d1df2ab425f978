"""The report of one run or several: an HTML page that needs no account and no server.

Start with `page.py`, which puts the sections together; `run.py` reads the folder of a run. Each
other module makes one section, and `templates/` has the HTML.
"""
