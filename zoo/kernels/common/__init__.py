"""Parts that the ops share: compiled C, calls of packages, proofs of kernels, small parts of attention."""
