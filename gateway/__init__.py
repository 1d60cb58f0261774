"""The daemon's door: one port, JSON-RPC over a websocket, and what each connection may do."""
