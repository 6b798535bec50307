"""The witness: what the providers' wire formats are, hand-written on JSON and bytes, without the SDKs.

Nothing here imports `harness.adapters` or an SDK, and no adapter imports this: a bug that both shared would hide in
both. What repeats between them is deliberate. `harness.catalog` has the APIs by name: four over HTTP, and the
`claude` command line, whose runs are exchanges like theirs. Each is a package that exports `API`; the modules beside
them are what all of them are made of.
"""
