"""`python -m langchain_convmem.cli` is `convmem`."""

from __future__ import annotations

import sys

from langchain_convmem.cli import main

sys.exit(main())
