"""Vantage: files in, pages and answers out."""

import os

__version__ = "0.1.0"

# torch's threads spin while they wait for each other, unless they are told not to before torch is loaded. On
# cores that others want, too, one spins for as long as the other waits for its turn: 26 s in place of 5.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
