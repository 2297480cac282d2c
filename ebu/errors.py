"""The one exception for everything a user can put right: a line that says what is wrong and what to do."""


class UserError(Exception):
    """Shown as one line without a traceback; the command line exits with code 2."""


class Interrupted(Exception):
    """Work that takes long was asked to stop; it left everything as it was before it began."""


class RunFailure(Exception):
    """A run that could not go on (a NaN reward, a full disk); one line, exit code 1."""


class EnvironmentFailure(RunFailure):
    """The environment raised, or returned what cannot be learned from; the agent itself is sound."""
