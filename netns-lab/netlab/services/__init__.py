"""`subord exec` and `subord files` measured, beside clush, pdsh, Serf and rsync."""
