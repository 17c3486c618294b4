"""`python -m upshot` is `upshot`."""

import sys

from upshot.cli import main

if __name__ == "__main__":
    sys.exit(main())
