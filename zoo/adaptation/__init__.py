"""Recipes for the weights that train in a model that starts from another's."""
