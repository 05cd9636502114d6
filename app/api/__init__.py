"""The REST interface: one module per noun, each with a `router`."""

from app.api import (
    advantages,
    analyses,
    batches,
    columns,
    comparisons,
    dashboards,
    estimates,
    figures,
    groups,
    live,
    registries,
    reproducers,
    rollouts,
    rows,
    runs,
    service,
    shares,
    tokenizers,
    transfers,
    uploads,
)

#: In the order of the document. Names of runs may hold slashes, so a run's figures and events stand before
#: the run itself.
ROUTERS = (
    uploads.router,
    transfers.router,
    columns.router,
    tokenizers.router,
    figures.router,
    live.router,
    runs.router,
    batches.router,
    rows.router,
    rollouts.router,
    groups.router,
    registries.router,
    estimates.router,
    analyses.router,
    reproducers.router,
    advantages.router,
    comparisons.router,
    dashboards.router,
    shares.router,
    service.router,
)
