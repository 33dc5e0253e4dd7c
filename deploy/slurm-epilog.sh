#!/bin/sh
# Slurm: every job that ends on this node counts as one for its performance (docs/mappings.md).
#
# In slurm.conf, here with a directory for several such scripts:
#
#     Epilog=/etc/slurm/epilog.d/*
#
# slurmd runs it on each node of a job as SlurmdUser. That must be root, as it usually is, or the user of the daemon:
# no other user may report jobs. The other epilogs of Slurm run elsewhere or as the owner of the job.
# There is no search path here, so programs have full paths. The result of the job is not known, so failed and
# cancelled jobs count, too.

/usr/local/bin/subord job-done 2>&1 | /usr/bin/logger -t subord

# An epilog that fails takes the node out of service. An uncounted job must not do that.
exit 0
