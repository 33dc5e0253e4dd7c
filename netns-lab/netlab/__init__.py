"""A cluster of real daemons on one machine: every node a process in a network namespace of its own.

Intuition: a ship in a bottle. Everything - the bridge, the wires, the nodes - hangs inside one private outer
namespace without a way out, so nothing leaks while the lab runs and everything vanishes with it.

Four kinds of process, each started by the one before; and beside the zygote a fifth, where ARP is counted, and a
sixth, where there are sites:

    lab         what you typed, or a test; talks to the controller over a Unix socket (lab.py, processes/client.py)
    keeper      stays outside; cleans up after the controller, whatever ends it (processes/keeper.py)
    controller  inside the private namespaces; makes wires, answers requests (processes/controller.py)
    zygote      has the daemon imported and warm; forks one copy into each node's namespace (zygote.py); a second
                one has the previous release, where it is run beside the present one (processes/zygotes.py)
    watcher     reads the neighbour requests on the bridges (topology/arp_counter.py, topology/packet_ring.py)
    relay       carries frames from site to site, over a distance (topology/relay.py, topology/wan.py)
"""
