"""A node of a cluster, as ``arneb serve`` runs it: the frontends' ports and a shard put together.

The rule: it is imported only where ``[cluster]`` names a node. The cluster knows no frontend and
the frontends know no cluster; what one needs of the other is given here.
"""
