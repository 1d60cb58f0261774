"""Relays: a client is served by the node that it is connected to, whichever node owns the session.

A request about a session that another node owns goes to that node, over one websocket for each pair of nodes, in
the same protocol; its answer or error is the client's. The node shows a ticket, which no client has
(`runtime.cluster.tickets`). What it may ask for is what its client may: it names the client's token, and the owner judges
the request by what it knows of that token itself. A request that was relayed is never relayed again.

Events are followed once for each session and pair of nodes, into the feed that the node has for its own subscribers.
Whether a subscriber may know of the session, it decides itself, by the record. What a subscriber has missed comes from
the record too, so that no `seq` is missed or comes twice, whichever node owns the session meanwhile.

When the owner can't be reached, the node looks who owns the session now, and claims it if its owner is gone. That takes as
long as a lease; then the client is told to try again.

Begin with `relays`: which node is asked, and how often. `peer` is the connection to one node, `accepted` that of a node
    that asks here, `messages` what the two say, `principals` who asks, and what that one may.
Comes in: requests and subscriptions of this node's clients; connections of other nodes.
Goes out: requests to other nodes, answers, and updates for the feeds.
Owns: one connection to each node whose sessions somebody here uses.
Imports: `connection`, `feeds`, `methods`, `shared`, `quotas`; `client` and `actors.cluster`. Nothing imports it where there is no
    cluster.
"""
