"""The commands: each module parses a command line, calls a library function, and prints.

Start reading at `main.py`, which lists the commands. `options.py` reads command lines of --options,
`settings.py` those of NAME=VALUE.
"""
