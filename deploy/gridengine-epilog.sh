#!/bin/sh
# Grid Engine: every job that ends on this node counts as one for its performance (docs/mappings.md).
#
# In the queue (qconf -mq QUEUE):
#
#     epilog    subord@/etc/subord/gridengine-epilog.sh
#
# `subord@` is the user of the daemon: only it and root may report jobs, and an epilog without it runs as the owner of
# the job. Do not write root@: the environment here is that of the job, hence whatever its owner wanted it to be.
# That is also why nothing of it is passed on. What the epilog prints would stand in the output of the job.

/usr/bin/env -i /usr/local/bin/subord job-done 2>&1 | /usr/bin/logger -t subord

# An epilog that fails puts the queue of this node into the error state. A job that was not counted is no reason.
exit 0
