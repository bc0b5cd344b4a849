"""How good is it, provably: certificates, how they are made, and the verifier that trusts none of it."""
