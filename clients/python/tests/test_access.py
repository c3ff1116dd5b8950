"""Tokens, TLS, and servers that ask to be left alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import unittest

from kit import Server, until, windlass
from windlass import Client, Disconnected, Unauthorised, Unavailable, Worker


def token(server: Server, name: str, scope: str, *more: str) -> str:
    made = json.loads(server.run("token", "create", name, "--scope", scope, "--json", *more))
    return str(made["token"])


class Tokens(unittest.TestCase):
    def test_bound_what_one_may_do(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        reader = server.client(token=token(server, "reader", "read"))
        nobody = server.client()

        def is_known() -> bool:
            try:
                nobody.stats()
            except Unauthorised as error:
                return (error.code, error.status) == ("unauthenticated", 401)
            return False

        until(is_known)
        until(lambda: reader.stats() is not None)
        with self.assertRaises(Unauthorised) as refused:
            reader.submit("x")
        self.assertEqual((refused.exception.code, refused.exception.status), ("forbidden", 403))
        worker = Worker(reader)
        worker.handle("x", lambda payload: payload)
        with self.assertRaises(Unauthorised):
            worker.start()

    def test_of_one_queue_are_enough_to_submit_work_and_wait(self) -> None:
        server = Server()
        self.addCleanup(server.close)
        mail = server.client(token=token(server, "mail", "submit,read,work", "--queue", "mail-*"))
        # The token is the first: the server may not have heard of it yet.
        until(lambda: _accepts(mail))
        worker = Worker(mail, queues=["mail-in"])
        worker.handle("x", lambda payload: payload * 2)
        with worker:
            id = mail.submit("x", 21, queue="mail-in")["id"]
            self.assertEqual(mail.wait(id, timeout=10)["result"], 42)

    def test_that_ask_too_often_wait_as_they_are_told(self) -> None:
        server = Server(arguments=["--rate-limit", "5"])
        self.addCleanup(server.close)
        made = token(server, "ci", "admin")
        impatient, patient = server.client(token=made, tries=1), server.client(token=made)
        until(lambda: _accepts(patient))

        def is_refused() -> bool:
            try:
                impatient.stats()
            except Unavailable as error:
                return (error.code, error.status, error.retry_after) == ("rate_limited", 429, 1.0)
            return False

        until(is_refused)
        patient.stats()


def _accepts(client: Client) -> bool:
    try:
        client.submit("probe", queue="mail-probe")
        return True
    except (Unauthorised, Unavailable):
        return False


class Tls(unittest.TestCase):
    def test_a_server_is_known_by_its_certificate(self) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            self.skipTest("openssl makes the certificates of this test")
        place = Server(store="memory")
        self.addCleanup(place.close)
        cert, key = place.place / "cert.pem", place.place / "key.pem"
        command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost"]
        command += [
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        subprocess.run(command, check=True, capture_output=True)
        server = Server(arguments=["--tls-cert", str(cert), "--tls-key", str(key)])
        self.addCleanup(server.close)
        self.assertTrue(server.url.startswith("https://"))
        client = server.client(ca_file=str(cert))
        worker = Worker(client, pool=2)

        @worker.task("until")
        def wait(payload: object, context: windlass.Context) -> None:
            context.cancelled.wait()

        with worker:
            id = client.submit("until")["id"]
            until(lambda: client.task(id)["state"] == "running")
            client.cancel(id)
            self.assertEqual(client.wait(id, timeout=10)["state"], "cancelled")
            events = client.events(kind="heard")
            client.submit("heard")
            self.assertEqual(next(events).data["kind"], "heard")
            events.close()
            self.assertEqual(list(events), [])
        with self.assertRaises(Disconnected) as refused:
            Client(server.url).stats()
        self.assertTrue(refused.exception.hopeless and not refused.exception.sent)


class Nobody(unittest.TestCase):
    def test_a_server_that_is_not_there_is_told(self) -> None:
        server = Server(store="memory")
        server.kill()
        self.addCleanup(server.close)
        with self.assertRaises(Disconnected) as refused:
            server.client(tries=2).stats()
        self.assertEqual((refused.exception.code, refused.exception.status), ("disconnected", 0))
        self.assertIn(server.url, refused.exception.detail)


if __name__ == "__main__":
    unittest.main()
