"""``python -m bench``, as ``make bench`` runs it."""

import sys

from bench.run import main

sys.exit(main())
