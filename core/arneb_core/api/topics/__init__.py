"""A topic as a frontend sees it: its log, settings and statistics, and what administrators do."""
