"""The classes of values of single nodes, by which the page colours them."""
