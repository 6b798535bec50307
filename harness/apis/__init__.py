"""The wire reader: hand-written readers of the providers' wire formats, based on JSON and bytes, without the SDKs.

Nothing here imports `harness.adapters` or an SDK, and no adapter imports this package. A bug in shared code would go
unnoticed, so the duplication is deliberate. `harness.apis.registry` finds the APIs by name: four over HTTP, and the
`claude` command line, whose runs are treated as exchanges. Each API is a package that exports `API`. The other modules
are shared by all APIs.

| module of an API | contents |
|---|---|
| `__init__` | its description `API` and its model generations |
| `requests` | requests → neutral views |
| `responses` | responses and streams → neutral views, and the rules that servers must keep |
| `server` | responses, streams, errors and other endpoints of the reference server |
| `checks` | checks of requests that conditions in `facts.yaml` cannot express |
| `conversion` | requests to and from canonical values |
"""
