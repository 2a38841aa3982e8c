"""Keys and certificates that are made for a test."""
import subprocess

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


def make_certificate(directory, name, days=90):
    """A key and a certificate signed with itself; the certificate's text."""
    key, cert = directory / f"{name}.key", directory / f"{name}.pem"
    _openssl("req", "-x509", *NEW_KEY, "-days", days, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", key, "-out", cert)
    return cert.read_text("ascii")
