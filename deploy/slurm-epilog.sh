#!/bin/sh
# Slurm: every job that ends on this node counts as one for its performance (docs/mappings.md).
#
# In slurm.conf, here with a directory for several such scripts:
#
#     Epilog=/etc/slurm/epilog.d/*
#
# slurmd runs it on each node of a job as SlurmdUser. That must be root, as it usually is, or the user of the daemon:
# nobody else may report jobs. The other epilogs of Slurm run elsewhere or as the owner of the job, and do not fit.
# There is no search path here, so programs are named in full. How a job ended is not known either, so those count,
# too, that failed or were cancelled.

/usr/local/bin/subord job-done 2>&1 | /usr/bin/logger -t subord

# An epilog that fails takes the node out of service. A job that was not counted is no reason for that.
exit 0
