"""The experiments of Sohn, Song and Lin (2024): plan, runs, protocols, tables and figures."""
