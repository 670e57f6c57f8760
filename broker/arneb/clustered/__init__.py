"""A node of a cluster, as ``arneb serve`` runs it: combines the frontends' ports with shards.

The rule: it is imported only where ``[cluster]`` names a node. The cluster knows no frontend and
the frontends know no cluster; this package gives each what it needs of the other.
"""
