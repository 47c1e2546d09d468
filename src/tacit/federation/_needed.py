"""What `tacit[federation]` brings: asked for before anything else here is imported."""

from importlib.util import find_spec

from tacit._extras import need

for _package in ("cryptography", "httpx", "starlette", "uvicorn"):
    if find_spec(_package) is None:
        need(_package, "to work with other sites", extra="federation")
