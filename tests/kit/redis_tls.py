"""Redis servers that speak TLS, with certificates of an Authority (certificates.py).

A server has a port without TLS too, by which tests give it orders.
"""
import urllib.parse

from tests.kit import servers
from tests.kit.ports import lasting_port


class RedisTls(servers.Redis):
    """`ca` is what the server trusts, and what its URLs name."""

    def __init__(self, ca, cert, key, settings=(), **options):
        self.ca = ca
        self.tls_port = lasting_port()
        own = {"tls-port": self.tls_port, "tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": ca.cert,
               "tls-auth-clients": "no"} | dict(settings)
        try:
            super().__init__(settings=own.items(), port=lasting_port(), **options)
        except RuntimeError as failed:
            said = str(failed).lower()
            if "tls" in said and ("bad directive" in said or "failed finding tls support" in said):
                raise servers.Missing("redis-server has no TLS") from failed
            raise

    def tls_url(self, host="127.0.0.1", login="", **query):
        """The settings of the query replace those that are usual; None leaves one out."""
        query = {"sslrootcert": self.ca.cert} | query
        given = {name: str(value) for name, value in query.items() if value is not None}
        words = urllib.parse.urlencode(given, safe="/")
        return f"rediss://{login}{host}:{self.tls_port}" + (f"?{words}" if words else "")

    def configure(self, **settings):
        """Of a server that runs; with underscores for hyphens."""
        words = [word for name, value in settings.items() for word in (name.replace("_", "-"), value)]
        said = self.call("CONFIG", "SET", *words)
        assert said == "OK", said
