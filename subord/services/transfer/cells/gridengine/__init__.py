"""Grid Engine as a cell: foreign jobs, and jobs in the transfer queue."""
