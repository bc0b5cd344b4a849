"""`veil verify`: the check of `checking.py` for the files of a result folder.

What this module and `certificate_file.py` reach is all that has to be believed of the numbers of `veil verify FOLDER`, which
also compares the words of the certificate with them (`words.py`); `tests/proof/test_trusted_base.py` counts it. None of it
knows scenarios, formulas, grids or players.
"""

from pathlib import Path

from ..common.ordinary import read_whole, reason
from ..common.pace import Watch
from ..common.verdicts import CertificateFileError
from .agent_file import read_agent
from .checking import Draws, Verification, check
from .claims import Claim
from .record import read_record


def verify_files(
    certificate: Claim, problem: Path, policy: Path, *, draws: Draws | None = None, clock: Watch | None = None
) -> Verification:
    """Check a certificate for the files `problem.bin` and `policy.safetensors` of a result folder, without the scenario.

    What a policy with a memory remembers is then that of the certificate. Words are not read: `check_words` compares those of
    a certificate with its numbers.

    **Raises:** as `veil.verify`; `CertificateFileError` where a file cannot be read.
    """
    try:
        content = read_whole(problem)
    except OSError as error:
        raise CertificateFileError(f"{problem} cannot be read: {reason(error)}") from None
    record = read_record(content)
    return check(certificate, record, read_agent(policy), certificate.register, draws, clock)
