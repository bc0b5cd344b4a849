"""A frozen record of numerical results, which guards against unintended changes.

Each case computes something small through the public interface or that of a room, and `frozen.json` holds what it gave. On
the machine and with the versions that the file was made with, results must be equal bit for bit; elsewhere they must agree
closely. To change a frozen value on purpose rerun `python -m tests.record --only NAME` and say why in the commit.
"""
