"""Tokens of the configuration. The secret of a token NAME is secret-NAME."""
import hashlib


def token_hash(token):
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def token_line(name, scopes, tenant="default"):
    """One of the list `tokens`."""
    return f"  - {{name: {name}, hash: \"{token_hash('secret-' + name)}\", scopes: [{scopes}], tenant: {tenant}}}\n"
