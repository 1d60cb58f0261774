"""What tests of `callboard acp` share: an editor that checks each line by the protocol's own schema."""
