"""How good is it, provably: certificates, how they are made, and the verifier."""
