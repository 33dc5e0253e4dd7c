"""Transfer queues: jobs cross between two clusters that have trees, keys and operators of their own.

In each cluster the agent of the transfer host decides: there is one transfer queue, so two halves of a tree never
both act. Home is where a user submitted a job, away is where it runs; each agent is home for its own jobs and away
for those of its peer. `plan` is the document, `home` and `away` are the two halves of the decision, `exchange` is
what they send each other, `permits` bounds how many jobs may come, `mapping` says what a job becomes on the other
side, `thresholds` what the load sensor tells, `records` what is on the disk before anything is done, `cells` the
interface of one batch system, `sides` what both halves are made of. Not yet a service; `tests/transfer/agent.py`
drives both halves as an agent has to.
"""
