"""``python -m arneb``: the command line without an installed script."""

from arneb.cli import main

main()
