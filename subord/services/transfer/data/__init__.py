"""Files of jobs between clusters without a common file system: the working directory goes along, results come back.

Parts: which files (listing.py), what an archive may have in it (archive.py), commands as the user (user.py), archives
on the disk of the transfer host (spool.py), questions and answers on the link (talk.py), and how an archive is
fetched (fetching.py). The driver decides when (services/transfer/driving/packing.py and coming.py beside it).
"""
