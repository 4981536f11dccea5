"""Compiled loops over whole columns: what ``wr.sliding`` runs."""
