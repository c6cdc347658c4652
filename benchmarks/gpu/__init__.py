"""Everything that waits for a card, in one script: tests, times, a sweep, and whether the targets are met."""
