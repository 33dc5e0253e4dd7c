"""`subord blob`: blobs by orders, for tests: nodes put a file, or get one that another node has put."""
