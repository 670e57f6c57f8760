"""Producers: a pure machine that numbers, packs and resends, and the shell that runs it."""
