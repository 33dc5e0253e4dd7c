"""Grid Engine: its answers (qstat, qhost, qacct), and how a host is registered with it (qconf)."""
