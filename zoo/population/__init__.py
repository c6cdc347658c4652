"""Cells that differ in learning rate, weight decay or seed alone, trained as one stacked model."""
