"""A proxy in front of a test's PostgreSQL that breaks connections at a chosen message."""

import contextlib
import socket
import threading


class CuttingProxy:
    """Forwards between a client's and the server's Unix socket, until the client sends `at`.

    Attributes:
        at: Cut when a message of the client holds one of these; None lets everything pass.
        answered: Whether the server still gets the fatal message (its answer is lost), or not
            even that.
        cuts: How many connections to cut before `at` is reset.
    """

    def __init__(self, server, directory):
        self._server = server / ".s.PGSQL.5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        self.dsn = f"host={directory} user=postgres dbname=postgres"
        self.at = None
        self.answered = False
        self.cuts = 1
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *at, answered, cuts=1):
        """Cut the next connections whose client sends one of `at`."""
        self.answered, self.cuts, self.at = answered, cuts, at

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
                threading.Thread(target=_pump, args=(server, client), daemon=True).start()

    def _to_server(self, client, server):
        with _ending(server):
            while data := client.recv(65536):
                if any(at in data for at in self.at or ()):
                    self.cuts -= 1
                    if self.cuts == 0:
                        self.at = None
                    # First of all the client: it must not hear what the server answers.
                    client.shutdown(socket.SHUT_RDWR)
                    if self.answered:
                        server.sendall(data)
                    break
                server.sendall(data)

    def close(self):
        """Break every connection and accept no more."""
        self._listener.close()
        for end in self._open:
            with contextlib.suppress(OSError):  # the other end was first
                end.shutdown(socket.SHUT_RDWR)  # closing alone would not wake who reads from it
            end.close()


def _pump(source, sink):
    with _ending(sink):
        while data := source.recv(65536):
            sink.sendall(data)


@contextlib.contextmanager
def _ending(sink):
    """Tell the receiver that nothing follows, also where the sender broke off."""
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cutting_proxy(server, directory):
    """Run a proxy in front of the server whose socket is in `server`."""
    proxy = CuttingProxy(server, directory)
    try:
        yield proxy
    finally:
        proxy.close()
