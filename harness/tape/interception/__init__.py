"""The HTTP clients of a process, intercepted while code runs that nobody hands a client: tests of an application.

Each client is taken hold of where a request is whole and its connection is not made yet: the transports of httpx and
httpx2, the pools of urllib3 (and so requests and botocore), the connectors of aiohttp (and what puts httpx on top of
it), the connections of Python's own http.client. Nothing is imported for it: a client that is not loaded is taken hold
of when it is.

vcrpy patches the same clients. Its stand-ins are made for its own cassettes, play each answer in one piece, and import
whatever is installed; and of aiohttp's own behaviour (redirects, cookies, middlewares) it has copies. Here a client
gets back what it would read off a connection, so that its own code makes a response of it.
"""

from harness.tape.interception.intercepted import intercepted
from harness.tape.interception.seam import Asked, Keep

__all__ = ["Asked", "Keep", "intercepted"]
