"""The actor kernel and the shared vocabulary; imports nothing of ours but itself."""
