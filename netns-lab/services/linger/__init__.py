"""`subord linger`: a leased service for tests: it acts until it is ended, and a file of each node shows both."""
