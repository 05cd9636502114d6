"""What a file's header says of how its advantages were computed: convention, framework, parameters.

`frameworks` has a table per framework of what its keys do; what no table has is not guessed.
"""

from app.configured.configured import Configured, configured, merged, parameters, takes, understood
from app.configured.frameworks import CALLED, FRAMEWORKS
from app.configured.names import text

__all__ = [
    "BY_DEFAULT",
    "CALLED",
    "FRAMEWORKS",
    "Configured",
    "configured",
    "merged",
    "parameters",
    "takes",
    "text",
    "understood",
]

#: What a framework computes unless it is told otherwise, for batches of groups.
BY_DEFAULT = {each.name: each.by_default for each in reversed(FRAMEWORKS) if each.by_default}
