"""A page about one run or several, to be opened in a browser without an account or a server."""
