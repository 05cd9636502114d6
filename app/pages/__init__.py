"""Every page: its address, its template, what it shows."""

from fastapi import APIRouter

from app.pages import dashboard, dashboards, home, jobs, receipt, shared
from app.pages.page import Page, router_of

__all__ = ["PAGES", "ROUTERS", "Page"]

PAGES: dict[str, Page] = {
    "home": home.PAGE,
    "receipt": receipt.PAGE,
    "jobs": jobs.PAGE,
    "dashboards": dashboards.PAGE,
    "dashboard": dashboard.PAGE,
    "shared": shared.PAGE,
}

ROUTERS: tuple[APIRouter, ...] = tuple(router_of(page) for page in PAGES.values())
