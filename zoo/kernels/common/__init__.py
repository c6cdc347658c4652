"""What the ops share: compiled C, calls of packages, the proof of a kernel, small parts of attention."""
