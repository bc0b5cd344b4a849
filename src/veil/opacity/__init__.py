"""How much is hidden: exact values, gradients and other measures of the joint table."""
