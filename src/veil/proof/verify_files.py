"""`veil verify`: the check of `checking.py` for the files of a result folder.

What this module and `certificate_file.py` reach is all that has to be believed of `veil verify FOLDER`;
`tests/proof/test_trusted_base.py` counts it. None of it knows scenarios, formulas, grids or players.
"""

from pathlib import Path

from ..common.errors import CertificateFileError
from ..common.files import read_whole, reason
from ..common.pace import Watch
from .agent_file import read_agent
from .checking import Draws, Verification, check
from .record import read_record
from .statement import Statement
from .words import check_words


def verify_files(
    certificate: Statement,
    problem: Path,
    policy: Path,
    *,
    draws: Draws | None = None,
    clock: Watch | None = None,
) -> Verification:
    """Check a certificate for the files `problem.bin` and `policy.safetensors` of a result folder, without the scenario.

    What a policy with a memory remembers is then that of the certificate, and its words for the policy are not compared.

    **Raises:** as `veil.verify`; `CertificateFileError` where a file cannot be read.
    """
    try:
        content = read_whole(problem)
    except OSError as error:
        raise CertificateFileError(f"{problem} cannot be read: {reason(error)}") from None
    record = read_record(content)
    found = check(certificate, record, read_agent(policy), certificate.register, draws, clock)
    check_words(certificate, record)
    return found
