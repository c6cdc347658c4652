"""zoo: what can a fixed-size memory recall?"""

__version__ = "0.1.0"
