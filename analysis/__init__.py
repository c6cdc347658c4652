"""From records to pictures: pure functions on the table that `zoo.results.load` returns."""
