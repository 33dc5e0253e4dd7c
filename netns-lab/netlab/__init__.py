"""A cluster of real daemons on one machine: every node a process in a network namespace of its own.

Bridges, links and nodes are inside one private outer namespace without a link to the outside, so nothing leaks while
the lab runs and everything vanishes with it. The processes, each started by the one before:

    lab         the command, or a test; talks to the controller over a Unix socket (lab.py, processes/client.py)
    keeper      stays outside; cleans up after the controller, however it ends (processes/keeper.py)
    controller  inside the private namespaces; makes the network, answers requests (processes/controller.py)
    zygote      has the daemon imported; forks one copy into each node's namespace (processes/zygote.py); a second
                one has the previous release, where it runs beside the present one
    counter     counts neighbour requests at the bridges (topology/arp_counter.py)
    relay       carries frames from site to site, with a delay (topology/relay.py)

The packages, each of which imports only those below it:

    cli                        commands and their arguments
    accounting                 records of jobs while daemons die
    shares                     shares of classes of work: real cgroups, many nodes, faults
    services                   commands and files on all nodes, beside other systems
    attack, mappings, peers    experiments: an intruder, a lying member, mappings, other systems
    experiments                start-up, healing, the paper's tests, and what all evaluations share
    scenarios                  scenario files with real daemons
    lab                        one lab, as tests and measurements use it
    processes                  keeper, controller, zygotes, commands on nodes
    eventlog                   the event log, and what follows from it
    topology                   addresses, bridges, sites, and what is done to frames
    common                     kernel calls, /proc, JSON lines, results, tables
"""
