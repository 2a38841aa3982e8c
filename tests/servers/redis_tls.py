"""Redis servers that speak TLS, with certificates that are made for the test.

A server has a port without TLS too, by which tests give it orders.
"""
import subprocess
import urllib.parse

import servers

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


class Authority:
    """Signs certificates, which are files of one folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        _openssl("req", "-x509", *NEW_KEY, "-days", 2, "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def sign(self, name, *names, days=2):
        """Certificate and key; `names` as in DNS:example.org, IP:127.0.0.1. Below 0 days it has expired."""
        base = self.folder / f"{self.name}-{name}"
        cert, key, request, extensions = (base.with_suffix(end) for end in (".pem", ".key", ".csr", ".ext"))
        extensions.write_text(f"subjectAltName={','.join(names or ['DNS:' + name])}\n")
        _openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", days,
                 "-extfile", extensions, "-out", cert)
        return cert, key


class RedisTls(servers.Redis):
    """`ca` is what the server trusts, and what its URLs name."""

    def __init__(self, ca, cert, key, settings=(), **options):
        self.ca = ca
        self.tls_port = servers.lasting_port()
        own = {"tls-port": self.tls_port, "tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": ca.cert,
               "tls-auth-clients": "no"} | dict(settings)
        try:
            super().__init__(settings=own.items(), port=servers.lasting_port(), **options)
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
