"""``python -m ebu``, which is also how torchrun starts it."""

import sys

from ebu.cli import main

if __name__ == "__main__":
    sys.exit(main())
