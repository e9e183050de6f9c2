"""``python -m dlblas`` is the command ``dlblas``. Read next: cli.py."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
