"""Vantage: files in, pages and answers out."""

__version__ = "0.1.0"
