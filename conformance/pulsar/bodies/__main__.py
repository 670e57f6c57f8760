"""How Apache Pulsar and Arneb answer invalid request bodies.

``python -m conformance.pulsar.bodies`` sends all of them to both and prints the differences.
"""

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.bodies.endpoints import ENDPOINTS
from conformance.pulsar.bodies.playing import differences, play


def main() -> int:
    """Send the bodies and print the differences."""
    parser = argparse.ArgumentParser(prog="python -m conformance.pulsar.bodies")
    parser.add_argument("--pulsar", help="the admin URL of a running Apache Pulsar")
    parser.add_argument("--arneb", help="the admin URL of a running Arneb")
    parser.add_argument("--only", default="", help="only calls whose names contain this")
    options = parser.parse_args()
    endpoints = [each for each in ENDPOINTS if options.only in each.name]
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor() as pool:
        pulsar, arneb = None, None
        if not options.pulsar:
            pulsar = PulsarStandalone(Path(made) / "pulsar").start()
        if not options.arneb:
            arneb = Arneb(Path(made) / "arneb", listeners=["pulsar", "http-pulsar"]).start()
        try:
            urls = [
                options.pulsar or (pulsar and pulsar.http_url),
                options.arneb or (arneb and arneb.admin_url),
            ]
            one, other = pool.map(lambda url: play(url, endpoints), urls)
        finally:
            for broker in (pulsar, arneb):
                if broker is not None:
                    broker.stop()
    found = differences(one, other)
    for each in found:
        print(each)
    counts = Counter(each.of for each in found)
    print(f"{len(endpoints)} calls, {len(one)} bodies, different: {dict(counts)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
