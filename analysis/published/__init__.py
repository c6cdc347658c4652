"""Published points and claims, as CSV files, and how ours are set beside them."""
