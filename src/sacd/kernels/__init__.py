"""The products that networks are made of: cpu.py on single nets, conv.py (and its Triton form) on many at once."""

import importlib.util

HAVE_TRITON = importlib.util.find_spec("triton") is not None
