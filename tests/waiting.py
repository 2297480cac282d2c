"""For tests that wait for another process: as long as it takes on a busy machine, and not for ever."""

from __future__ import annotations

import time

PATIENCE = 400  # seconds until what should have begun or ended counts as stuck


def wait_for(condition, what):
    """What ``condition`` returns, once that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.005)
    return found
