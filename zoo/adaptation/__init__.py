"""Which weights of a model that starts from another's train, and in what form."""
