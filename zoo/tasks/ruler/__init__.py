"""The parts of zoo.tasks.ruler_lite: tokens, haystacks, questions, and their solver."""
