"""A small HTTP server on loopback for the tests of the http runner: what it does is in the path.

Prints its port, and ends when its standard input does.
"""
import base64
import hmac
import http.server
import json
import os
import socket
import struct
import sys
import threading
import time

connections = 0
seen = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        global connections
        connections += 1
        super().setup()

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        seen.append("GET " + self.path)
        self.reply(200, b"got")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen.append("POST " + self.path)
        what, _, arg = self.path[1:].partition("/")
        if what == "echo":
            self.reply(200, body)
        elif what == "facts":
            facts = {k: v for k, v in self.headers.items() if k.startswith(("Redrive", "Content-T"))}
            self.reply(201, json.dumps([self.command, facts]).encode())
        elif what == "signed":  # the body is the result when it is signed with the key and fresh
            key, _, name = arg.partition("/")
            signed = ".".join([self.headers["webhook-id"], self.headers["webhook-timestamp"], ""]).encode() + body
            wanted = base64.b64encode(hmac.new(bytes.fromhex(key), signed, "sha256").digest()).decode()
            age_s = abs(time.time() - int(self.headers["webhook-timestamp"]))
            is_signed = "v1," + wanted in self.headers["webhook-signature"].split(" ") and age_s < 60
            self.reply(200 if is_signed else 401, (self.headers.get(name) or "none").encode())
        elif what == "status":
            self.reply(int(arg), b"status " + arg.encode())
        elif what == "after":
            status, _, value = arg.partition("/")
            self.reply(int(status), Retry_After=value.replace("_", " "))
        elif what == "after-date":
            when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 90))
            self.reply(429, Retry_After=when)
        elif what == "long":
            self.reply(500, b"e" * 100000)
        elif what == "nul":
            self.reply(500, b"a\0b")
        elif what == "big":
            self.reply(200, b"x" * int(arg))
        elif what == "endless":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                self.close_connection = True
        elif what == "redirect":
            self.reply(302, Location="/followed")
        elif what == "slow":
            time.sleep(float(arg))
            self.reply(200, b"at last")
        elif what == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif what == "garbage":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            self.close_connection = True
        elif what == "connections":
            self.reply(200, str(connections).encode())
        elif what == "seen":
            self.reply(200, " ".join(seen).encode())

    def finish(self):
        try:
            super().finish()
        except (OSError, ValueError):
            pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
