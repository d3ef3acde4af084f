"""Draws of a net with dropout: masks that stay, and the shortest way through the net with them."""
