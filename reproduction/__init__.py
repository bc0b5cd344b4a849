"""The paper's experiments, one module each, from the scenario to the tables and figures."""
