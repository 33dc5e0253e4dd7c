#!/bin/sh
# Grid Engine: every job that ends on this node counts as one for its performance (docs/mappings.md).
#
# In the queue (qconf -mq QUEUE):
#
#     epilog    subord@/etc/subord/gridengine-epilog.sh
#
# `subord@` is the user of the daemon: only it and root may report jobs, and an epilog without it runs as the owner of
# the job. Do not write root@: the environment here is that of the job, so its owner controls it. It is not passed on,
# either. The output of the epilog would be part of the output of the job.

/usr/bin/env -i /usr/local/bin/subord job-done 2>&1 | /usr/bin/logger -t subord

# An epilog that fails puts the queue of this node into the error state. An uncounted job must not do that.
exit 0
