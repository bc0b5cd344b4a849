"""The best of all policies: the convex game between agent and observer, with proven bounds."""
