"""What only the studies need: readers of public data sets, images of characters, the ageing of scores, a last layer."""
