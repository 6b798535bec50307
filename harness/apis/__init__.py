"""The witness: what the providers' wire formats are, hand-written on JSON and bytes, without the SDKs.

Nothing here imports `harness.adapters` or an SDK, and no adapter imports this: a bug that both shared would hide in
both. What repeats between them is deliberate. `harness.catalog` has the APIs by name: four over HTTP, and the
`claude` command line, whose runs are exchanges like theirs. Each is a package that exports `API`; the modules beside
them are what all of them are made of.

| module | contents |
|---|---|
| `requests` | a request, read as its neutral view |
| `responses`, `streams` | an answer, read as its neutral view; a stream, as the answer that it spells out |
| `building` | answers and streams of the reference server |
| `failures` | refusals and failures by status, in the provider's words |
| `limits` | the checks of requests that conditions in `facts.yaml` cannot say |
| `promises` | the grammar of streams; `promises.yaml` has the schemas of answers |
| `profiles` | capabilities of the generations of its models |
| `lift`, `questions` | values read off requests for re-drives; requests to a server under test; `asking` has both |
"""
