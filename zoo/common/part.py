"""The base of all classes that the config of a model or a task may name inside."""


class Part:
    """The base of mixers, blocks, tasks and feature maps, and of nothing else."""
