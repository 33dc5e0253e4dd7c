"""`subord transfer`: jobs cross between two clusters that have trees, keys and operators of their own.

Order: a question. Result: how the node takes part, and of the transfer host what it sees, with jobs if they are asked
for. Document: `transfer/plan`, which an operator of each cluster signs. Report: none. Settings: [transfer].
Authority: every member may ask; the power `plans` changes the plan.

In each cluster the agent of the transfer host decides: there is one, so two halves of a tree never both act. Home is
where a user submitted a job, away is where it runs; each agent is home for its own jobs and away for those of its
peer. `plan` is the document, `home` and `away` are the two halves of the decision, `exchange` is what they send each
other, `permits` bounds how many jobs may come, `mapping` says what a job becomes on the other side, `thresholds` what
the load sensor tells, `records` what is on the disk before anything is done, `cells` the interface of one batch
system, `sides` what both halves are made of, `methods` what the batch system runs, `answering` what it asks. All
effects begin in agent.py, and `driving` has them; `linking` is the way to the other cluster, `telling` what nodes
say, `commands` what the command does. "The text" in these modules is "A Prototype of a Multi-Clustering
Implementation using Transfer Queues".
"""
