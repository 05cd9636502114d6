"""Every page: its address, its template, what it shows."""

from fastapi import APIRouter

from app.pages import (
    actions,
    batch,
    colours,
    columns,
    compare,
    dashboard,
    dashboards,
    group,
    home,
    jobs,
    loss,
    meanings,
    numbers,
    receipt,
    rollout,
    run,
    shared,
    verify,
    whitening,
)
from app.pages.page import Page, router_of

__all__ = ["PAGES", "ROUTERS", "Page"]

PAGES: dict[str, Page] = {
    "home": home.PAGE,
    "receipt": receipt.PAGE,
    "columns": columns.PAGE,
    "run": run.PAGE,
    "batch": batch.PAGE,
    "group": group.PAGE,
    "rollout": rollout.PAGE,
    "whitening": whitening.PAGE,
    "loss": loss.PAGE,
    "verify": verify.PAGE,
    "compare": compare.PAGE,
    "meanings": meanings.PAGE,
    "jobs": jobs.PAGE,
    "dashboards": dashboards.PAGE,
    "dashboard": dashboard.PAGE,
    "shared": shared.PAGE,
}

ROUTERS: tuple[APIRouter, ...] = (
    *(router_of(page) for page in PAGES.values()),
    actions.router,
    numbers.router,
    colours.router,
)
