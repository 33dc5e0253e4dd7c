"""`subord metrics [NAME]`: the table of figures, and what its commands share."""
