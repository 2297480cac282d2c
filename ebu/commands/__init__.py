"""One module per group of commands; ``cli.py`` calls them."""
