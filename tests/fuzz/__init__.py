"""The campaign: generated calls of everything public, judged by an oracle that was written from the definitions."""
