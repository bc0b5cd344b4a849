"""The errors with which a verifier ends, apart from those of all the rest of the package."""


class VeilError(Exception):
    """Base of all errors that veil raises for a user's fault."""


class TooLargeError(VeilError):
    """The work asked for does not fit the budget of time or memory; says how large it is and what to do instead."""


class PolicyFileError(VeilError, ValueError):
    """A policy file that cannot be read as one."""


class CertificateError(VeilError, ValueError):
    """A certificate that does not hold, does not belong to its problem or policy, or cannot be read; says what failed."""


class CertificateFileError(CertificateError):
    """A certificate whose files are missing or cannot be read, so that nothing is known of what it claims."""
