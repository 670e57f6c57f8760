"""Refusals: commands of ``rabbitmqctl`` that mean nothing here.

The rule: one sentence says why, and the exit code is that of a refusal by the broker, which is not
even asked.
"""

from typing import Final

from arneb.ctl.exits import ExitCode, error
from arneb.ctl.session import Command, Session

ALONE: Final = "an Arneb broker is one node: there is no cluster to join, leave or change"
MIRRORS: Final = "queues have no mirrors or replicas here"
MNESIA: Final = "there is no Mnesia here: `arneb check` and `arneb salvage` look after the store"
SECRETS: Final = "encrypted values in settings do not exist here: keep secrets in files"
ERLANG: Final = "there is no Erlang here"

REASONS: Final = {
    "join_cluster": ALONE,
    "forget_cluster_node": ALONE,
    "change_cluster_node_type": ALONE,
    "update_cluster_nodes": ALONE,
    "rename_cluster_node": ALONE,
    "await_online_nodes": ALONE,
    "sync_queue": MIRRORS,
    "cancel_sync_queue": MIRRORS,
    "force_boot": MNESIA,
    "force_gc": ERLANG,
    "exec": ERLANG,
    "eval_file": ERLANG,
    "encode": SECRETS,
    "decode": SECRETS,
    "encrypt_conf_value": SECRETS,
    "list_ciphers": "ciphers are those of this machine's OpenSSL: `openssl ciphers` lists them",
    "wait": "wait for the start by `await_startup`, which needs no PID file",
    "suspend_listeners": "stop sending clients by `stop`: /readyz says so first",
    "resume_listeners": "listeners are not suspended here",
}


def _refusal(name: str, reason: str) -> Command:
    def run(session: Session) -> None:
        raise error(ExitCode.UNAVAILABLE, reason)

    return Command(name, "[<anything>, ...]", reason, run, runs_stopped=True, asks=False)


COMMANDS: Final = tuple(_refusal(name, reason) for name, reason in REASONS.items())
