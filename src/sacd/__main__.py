"""`python -m sacd`."""

import sys

from sacd.cli import main

sys.exit(main())
