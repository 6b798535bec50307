"""The witness: what the providers' wire formats are, hand-written on JSON and bytes, without the SDKs.

Nothing here imports `harness.adapters` or an SDK, and no adapter imports this: a bug that both shared would hide in
both. What repeats between them is deliberate. `harness.catalog` has the APIs by name: four over HTTP, and the
`claude` command line, whose runs are exchanges like theirs. Each is a package that exports `API`; the modules beside
them are what all of them are made of.

| module | what stands in it |
|---|---|
| `requests` | a request, as its neutral view |
| `responses` | an answer as its neutral view; `building`: a model step as an answer |
| `streams` | a stream as the whole answer that it spells out; `building`: an answer as a stream |
| `failures` | a refusal, or a failure by status, in the provider's words, and what either says |
| `limits` | the table of what is refused, and the modules that check it by subject; `judging` goes over all of them |
| `profiles` | what holds for the generations of its models |
| `lift` | canonical values off requests, for re-drives |
"""
